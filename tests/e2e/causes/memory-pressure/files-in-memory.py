"""A loader fills a file system that lies in memory, up to the limit of its cgroup, and nothing is killed for it."""
# expect: hung|slow memory-pressure
# needs: cgroup memory
import os
import time
from kit import Cgroup, blame, mount_tmpfs, private_mounts, ready, role, start

if role() == "load":
    blame(pid=os.getpid())
    with open("cache/shard", "wb", buffering=0) as shard:
        while True:
            shard.write(b"x" * (4 << 20))
            time.sleep(0.05)
private_mounts()
mount_tmpfs("cache", "size=1g")
limit = Cgroup("memory", memory__limit_in_bytes=64 << 20, memory__oom_control=1)
loader = start("load", preexec_fn=lambda: limit.add(os.getpid()))
ready()
loader.wait()
