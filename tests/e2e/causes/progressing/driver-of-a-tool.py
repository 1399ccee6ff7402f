"""A driver waits for a tool that is not Python and works."""
# expect: healthy progressing
import subprocess
from kit import ready

ready()
subprocess.run("while :; do :; done", shell=True)
