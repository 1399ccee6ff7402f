"""A job is killed at the limit of its cgroup, and its launcher fails."""
# expect: failed out-of-memory
# needs: cgroup memory
# asked: at the end
import os
import sys
import time
from kit import Cgroup, blame, ready, role, start

if role() == "job":
    blame(pid=os.getpid())
    kept = []
    while True:
        kept.append(b"x" * (4 << 20))
        time.sleep(0.1)
limit = Cgroup("memory", memory__limit_in_bytes=64 << 20)
job = start("job", preexec_fn=lambda: limit.add(os.getpid()))
ready()
job.wait()
time.sleep(5)
os.rmdir(limit.path)
sys.exit(1)
