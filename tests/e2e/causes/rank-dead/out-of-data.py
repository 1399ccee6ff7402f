"""Rank 1 has no data left and ends well; the others wait for it."""
# expect: hung rank-dead
import os
import signal
import sys
import time
from kit import Meeting, blame, join, ready, role, spare, start_ranks, until

if role() == "rank":
    meeting = Meeting()
    if meeting.rank == 1:
        blame(pid=os.getpid(), rank=1)
    else:
        spare(rank=meeting.rank)
    for step in range(10**9):
        if meeting.rank == 1 and step == 100:
            sys.exit(0)
        meeting.all_reduce()
        time.sleep(0.02)
ranks = start_ranks(3)
ready()
join(ranks)
