"""Eight threads compute with a fifth of a processor."""
# expect: slow cpu-throttled
# needs: cgroup cpu
import hashlib
import os
import threading
from kit import Cgroup, blame, ready, role, start


def hash_blocks():
    for _ in range(10**9):
        hashlib.sha256(b"x" * 100000).digest()


if role():
    for _ in range(7):
        threading.Thread(target=hash_blocks, daemon=True).start()
    hash_blocks()
quota = Cgroup("cpu", cpu__cfs_period_us=100000, cpu__cfs_quota_us=20000)
job = start("job")
quota.add(job.pid)
blame(pid=job.pid)
ready()
job.wait()
