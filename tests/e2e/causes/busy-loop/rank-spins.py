"""Rank 1 turns in a loop whose end it has missed; the others wait for it."""
# expect: hung busy-loop|rank-behind
import os
import time
from kit import Meeting, blame, join, ready, role, spare, start_ranks


def bisect(low, high):
    while low != high:
        low, high = high, low


if role() == "rank":
    meeting = Meeting()
    if meeting.rank == 1:
        blame(pid=os.getpid(), rank=1)
    else:
        spare(rank=meeting.rank)
    for step in range(10**9):
        if meeting.rank == 1 and step == 50:
            bisect(0, 1)
        meeting.all_reduce()
        time.sleep(0.02)
ranks = start_ranks(3)
ready()
join(ranks)
