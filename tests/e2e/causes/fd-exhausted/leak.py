"""A loader leaks a descriptor for each file, and at its limit tries again for ever."""
# expect: hung fd-exhausted
import os
import resource
import time
from kit import blame, ready

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
kept = []


def load(path):
    for _ in range(10**9):
        try:
            kept.append(open(path))
            return
        except OSError:
            time.sleep(0.1)


blame(pid=os.getpid())
ready()
for _ in range(10**9):
    load("job.py")
