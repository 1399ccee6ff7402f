"""A rank aborts; the launcher ends the others and fails."""
# expect: failed crashed
# asked: at the end
import os
import sys
import time
from kit import Meeting, blame, ready, role, start_ranks

if role() == "rank":
    meeting = Meeting()
    if meeting.rank == 1:
        blame(pid=os.getpid(), rank=1)
    for step in range(10**9):
        if meeting.rank == 1 and step == 100:
            os.abort()
        meeting.all_reduce()
        time.sleep(0.02)
ranks = start_ranks(3)
ready()
while all(rank.poll() is None for rank in ranks):
    time.sleep(0.02)
for rank in ranks:
    rank.terminate()
for rank in ranks:
    rank.wait()
sys.exit(1)
