"""One thread computes with a tenth of a processor."""
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
    hash_blocks()
quota = Cgroup("cpu", cpu__cfs_period_us=100000, cpu__cfs_quota_us=10000)
job = start("job")
quota.add(job.pid)
blame(pid=job.pid)
ready()
job.wait()
