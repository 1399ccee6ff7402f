"""Rank 0 writes a checkpoint now and then, while the others wait."""
# expect: healthy progressing
import os
import time
from kit import Meeting, join, ready, role, start_ranks


def save(rank, step):
    time.sleep(0.1)
    if rank == 0 and step % 30 == 29:
        with open("checkpoint", "wb") as file:
            for _ in range(400):
                file.write(os.urandom(1 << 16))
                file.flush()
                time.sleep(0.01)


if role() == "rank":
    meeting = Meeting()
    for step in range(10**9):
        save(meeting.rank, step)
        meeting.all_reduce()
ranks = start_ranks(3)
ready()
join(ranks)
