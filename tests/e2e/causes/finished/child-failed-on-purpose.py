"""Small commands of a job fail and are meant to; the job ends well."""
# expect: finished finished
# asked: at the end
import subprocess
import time
from kit import ready

ready()
for _ in range(20):
    subprocess.run(["grep", "-q", "what-is-not-there", "/etc/hostname"])
    time.sleep(0.1)
