"""A pipeline of a shell works."""
# expect: healthy progressing
import subprocess
from kit import ready

ready()
subprocess.run("while :; do echo line; sleep 0.01; done | grep -c line", shell=True)
