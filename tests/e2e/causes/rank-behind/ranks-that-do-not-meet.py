"""Four ranks that never meet count on by themselves; rank 2 opens a FIFO that nobody writes to."""
# expect: hung rank-behind|waiting-for-peer
import os
import time
from kit import blame, join, ready, role, start_ranks

if role() == "rank":
    rank = int(os.environ["RANK"])
    if rank == 2:
        blame(pid=os.getpid(), rank=2)
    for step in range(10**9):
        if rank == 2 and step == 20:
            ready()
            open("input").read()
        time.sleep(0.05)
os.mkfifo("input")
join(start_ranks(4, meets=False))
