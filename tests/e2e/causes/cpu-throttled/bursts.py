"""A job computes and sleeps in turns, with a quota that its bursts use up."""
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
    import time
    while True:
        for _ in range(40):
            hashlib.sha256(b"x" * 100000).digest()
        time.sleep(0.01)
quota = Cgroup("cpu", cpu__cfs_period_us=100000, cpu__cfs_quota_us=5000)
job = start("job")
quota.add(job.pid)
blame(pid=job.pid)
ready()
job.wait()
