"""Rank 2 looks again and again for a file that nobody writes."""
# expect: hung rank-behind
import os
import time
from kit import Meeting, blame, join, ready, role, spare, start_ranks


def wait_for_shard(step):
    while step == 9 and meeting.rank == 2 and not os.path.exists("shard"):
        time.sleep(0.05)


if role() == "rank":
    meeting = Meeting()
    if meeting.rank == 2:
        blame(pid=os.getpid(), rank=2)
    else:
        spare(rank=meeting.rank)
    for step in range(10**9):
        wait_for_shard(step)
        meeting.all_reduce()
        time.sleep(0.02)
ranks = start_ranks(4)
ready()
join(ranks)
