"""Downloads have failed; their parent looks for their files instead of their status."""
# expect: hung|failed zombie-unreaped
import os
import subprocess
import time
from kit import blame, ready

downloads = [subprocess.Popen(["sh", "-c", "exit 1"]) for _ in range(3)]
blame(pid=os.getpid())
ready()
while not all(os.path.exists("part-%d" % number) for number in range(3)):
    time.sleep(0.1)
