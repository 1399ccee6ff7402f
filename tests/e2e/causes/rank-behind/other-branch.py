"""Rank 1 evaluates, in which it waits for an answer from elsewhere, while the others go on to the next step."""
# expect: hung rank-behind
import os
import socket
import time
from kit import Meeting, blame, join, ready, role, spare, start_ranks


def evaluate(source):
    return source.recv(1)


if role() == "rank":
    meeting = Meeting()
    source = socket.create_connection(("127.0.0.1", int(os.environ["EVALUATOR"])))
    if meeting.rank == 1:
        blame(pid=os.getpid(), rank=1)
    else:
        spare(rank=meeting.rank)
    for step in range(10**9):
        if meeting.rank == 1 and step == 30:
            evaluate(source)
        meeting.all_reduce()
        time.sleep(0.02)
evaluator = socket.socket()
evaluator.bind(("127.0.0.1", 0))
evaluator.listen(8)
os.environ["EVALUATOR"] = str(evaluator.getsockname()[1])
ranks = start_ranks(3)
ready()
join(ranks)
