"""Rank 0 waits for its prefetch thread, which reads from a socket that nobody answers."""
# expect: hung rank-behind
import os
import queue
import socket
import threading
import time
from kit import Meeting, blame, join, ready, role, spare, start_ranks

batches = queue.Queue(2)


def fetch(source):
    return source.recv(10)


def prefetch():
    source, _keep = socket.socketpair()
    threading.current_thread()._keep = _keep
    for number in range(10**9):
        if number == 20:
            fetch(source)
        batches.put(number)


if role() == "rank":
    meeting = Meeting()
    if meeting.rank == 0:
        thread = threading.Thread(target=prefetch, name="prefetch", daemon=True)
        thread.start()
        blame(pid=os.getpid(), rank=0, thread=thread.native_id)
    else:
        spare(rank=meeting.rank)
    for step in range(10**9):
        if meeting.rank == 0:
            batches.get()
        meeting.all_reduce()
        time.sleep(0.02)
ranks = start_ranks(3)
ready()
join(ranks)
