"""Rank 0 evaluates for seconds after some steps, while the others wait."""
# expect: healthy progressing
import os
import time
from kit import Meeting, join, ready, role, start_ranks


def evaluate(rank, step):
    time.sleep(0.05)
    if rank == 0 and step % 40 == 39:
        for sample in range(60):
            numbers = [number * number for number in range(100000)]
            best = max(numbers, key=lambda number: number % 1000)
            ranked = sorted(numbers, key=lambda number: -number)


if role() == "rank":
    meeting = Meeting()
    for step in range(10**9):
        evaluate(meeting.rank, step)
        meeting.all_reduce()
ranks = start_ranks(3)
ready()
join(ranks)
