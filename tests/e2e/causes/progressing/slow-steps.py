"""Steps take longer than three intervals; two ranks wait for the third each time."""
# expect: healthy progressing
import os
import time
from kit import Meeting, join, ready, role, start_ranks


def compute(rank, step):
    began = time.monotonic()
    while time.monotonic() - began < (3 if rank == 0 else 0.2):
        time.sleep(0.01)


if role() == "rank":
    meeting = Meeting()
    for step in range(10**9):
        compute(meeting.rank, step)
        meeting.all_reduce()
ranks = start_ranks(3)
ready()
join(ranks)
