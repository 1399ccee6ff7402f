"""A worker of a pool is killed at the limit of its cgroup; its result never comes."""
# expect: hung out-of-memory
# needs: cgroup memory
import multiprocessing
import os
import time
from kit import Cgroup, blame, end_with_parent, ready, role, start


def decode(count):
    blame(pid=os.getpid())
    kept = []
    for _ in range(count):
        kept.append(b"x" * (4 << 20))
        time.sleep(0.1)


if role() == "pool":
    with multiprocessing.get_context("fork").Pool(1, initializer=end_with_parent) as pool:
        blame(pid=os.getpid())
        ready()
        print(pool.map(decode, [1000]))
limit = Cgroup("memory", memory__limit_in_bytes=64 << 20)
job = start("pool", preexec_fn=lambda: limit.add(os.getpid()))
job.wait()
