"""Rank 2 raises, and its launcher, which only asks for the others, leaves it a zombie."""
# expect: hung rank-dead
import os
import signal
import sys
import time
from kit import Meeting, blame, join, ready, role, spare, start_ranks, until

if role() == "rank":
    meeting = Meeting()
    if meeting.rank == 2:
        blame(pid=os.getpid(), rank=2)
    else:
        spare(rank=meeting.rank)
    for step in range(10**9):
        if meeting.rank == 2 and step == 100:
            raise ValueError('a bad record')
        meeting.all_reduce()
        time.sleep(0.02)
ranks = start_ranks(3)
ready()
join(ranks[:2])
