"""Ranks that never meet count at different speeds."""
# expect: healthy progressing
import os
import time
from kit import join, ready, role, start_ranks

if role() == "rank":
    for step in range(10**9):
        time.sleep(0.05 * (1 + 8 * int(os.environ["RANK"])))
ranks = start_ranks(4, meets=False)
ready()
join(ranks)
