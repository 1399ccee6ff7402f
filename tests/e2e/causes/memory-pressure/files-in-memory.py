"""A loader fills a file system that lies in memory, up to the limit of its cgroup, and nothing is killed for it."""
# expect: hung|slow memory-pressure
# needs: cgroup memory
import mmap
import os
import time
from kit import Cgroup, blame, mount_tmpfs, private_mounts, ready, role, start

SIZE, PART, PAGE = 256 << 20, 4 << 20, mmap.PAGESIZE
if role() == "load":
    blame(pid=os.getpid())
    with open("cache/shard", "w+b") as shard:
        shard.truncate(SIZE)
        # By touching it: a write(2) that finds no memory may fail instead of waiting for some.
        memory = mmap.mmap(shard.fileno(), SIZE)
        for position in range(0, SIZE, PAGE):
            memory[position] = 1
            if position % PART == 0:
                time.sleep(0.05)
private_mounts()
mount_tmpfs("cache", "size=1g")
limit = Cgroup("memory", memory__limit_in_bytes=64 << 20, memory__oom_control=1)
loader = start("load", preexec_fn=lambda: limit.add(os.getpid()))
ready()
loader.wait()
