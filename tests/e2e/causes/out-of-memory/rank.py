"""A rank is killed at the limit of its cgroup; the others wait for it."""
# expect: hung out-of-memory|rank-dead
# needs: cgroup memory
import os
import time
from kit import Cgroup, Meeting, blame, join, ready, role, spare, start_ranks

if role() == "rank":
    meeting = Meeting()
    (blame if meeting.rank == 1 else spare)(rank=meeting.rank)
    if meeting.rank == 1:
        with open(os.environ["LIMIT"] + "/cgroup.procs", "w") as procs:
            procs.write(str(os.getpid()))
    kept = []
    for step in range(10**9):
        if meeting.rank == 1:
            kept.append(b"x" * (1 << 20))
        meeting.all_reduce()
        time.sleep(0.02)
limit = Cgroup("memory", memory__limit_in_bytes=64 << 20)
os.environ["LIMIT"] = limit.path
ranks = start_ranks(3)
ready()
join(ranks)
