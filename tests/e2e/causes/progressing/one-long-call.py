"""Each step of rank 1 is one long call of native code."""
# expect: healthy|slow|unknown progressing|unknown
import hashlib
import os
import time
from kit import Meeting, join, ready, role, start_ranks


def compute(rank, step):
    if rank == 1:
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", 1_200_000 if step else 100_000)
    time.sleep(0.05)


if role() == "rank":
    meeting = Meeting()
    for step in range(10**9):
        compute(meeting.rank, step)
        meeting.all_reduce()
ranks = start_ranks(3)
ready()
join(ranks)
