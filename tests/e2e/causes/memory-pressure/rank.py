"""A rank asks for memory that its cgroup does not have, and nothing is killed for it; the others wait."""
# expect: hung|slow memory-pressure
# needs: cgroup memory
import os
import time
from kit import Cgroup, Meeting, blame, join, ready, role, start_ranks

if role() == "rank":
    meeting = Meeting()
    if meeting.rank == 1:
        blame(pid=os.getpid(), rank=1)
        with open(os.environ["LIMIT"] + "/cgroup.procs", "w") as procs:
            procs.write(str(os.getpid()))
    kept = []
    for step in range(10**9):
        if meeting.rank == 1:
            kept.append(b"x" * (1 << 20))
        meeting.all_reduce()
        time.sleep(0.02)
limit = Cgroup("memory", memory__limit_in_bytes=64 << 20, memory__oom_control=1)
os.environ["LIMIT"] = limit.path
ranks = start_ranks(3)
ready()
join(ranks)
