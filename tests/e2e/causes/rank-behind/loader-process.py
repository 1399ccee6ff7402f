"""Rank 1 waits for its loader process, which waits for a lock that nobody releases."""
# expect: hung rank-behind
import multiprocessing
import os
import time
from kit import Meeting, blame, end_with_parent, join, ready, role, spare, start_ranks


def load(results, lock):
    end_with_parent()
    for number in range(10**9):
        if number == 20:
            with lock:
                pass
        results.put(number)


if role() == "rank":
    meeting = Meeting()
    if meeting.rank == 1:
        fork = multiprocessing.get_context("fork")
        results, lock = fork.Queue(2), fork.Lock()
        lock.acquire()
        loader = fork.Process(target=load, args=(results, lock), daemon=True)
        loader.start()
        blame(rank=1)
    else:
        spare(rank=meeting.rank)
    for step in range(10**9):
        if meeting.rank == 1:
            results.get()
        meeting.all_reduce()
        time.sleep(0.02)
ranks = start_ranks(3)
ready()
join(ranks)
