"""Children have ended, and their parent will ask for them when its own work is done."""
# expect: healthy progressing
import subprocess
import time
from kit import ready

children = [subprocess.Popen(["true"]) for _ in range(4)]
ready()
for step in range(10**9):
    time.sleep(0.1)
