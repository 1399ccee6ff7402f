"""A rank is stopped by SIGSTOP; the others wait for it."""
# expect: hung stopped
import os
import signal
import time
from kit import Meeting, blame, join, ready, role, spare, start_ranks

if role() == "rank":
    meeting = Meeting()
    (blame if meeting.rank == 1 else spare)(rank=meeting.rank)
    for step in range(10**9):
        if meeting.rank == 1 and step == 50:
            os.kill(os.getpid(), signal.SIGSTOP)
        meeting.all_reduce()
        time.sleep(0.02)
ranks = start_ranks(3)
ready()
join(ranks)
