"""Rank 0 is killed; its launcher takes note and goes on."""
# expect: hung rank-dead
import os
import signal
import sys
import time
from kit import Meeting, blame, join, ready, role, spare, start_ranks, until

if role() == "rank":
    meeting = Meeting()
    if meeting.rank == 0:
        blame(pid=os.getpid(), rank=0)
    else:
        spare(rank=meeting.rank)
    for step in range(10**9):
        if meeting.rank == 0 and step == 100:
            os.kill(os.getpid(), signal.SIGKILL)
        meeting.all_reduce()
        time.sleep(0.02)
ranks = start_ranks(3)
ready()
join(ranks)
