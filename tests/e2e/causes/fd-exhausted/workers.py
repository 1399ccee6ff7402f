"""A pool cannot start another worker, because no descriptor is left for its pipe, and tries again."""
# expect: hung fd-exhausted
import os
import resource
import subprocess
import sys
import time
from kit import blame, ready

resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))


def spawn():
    while True:
        try:
            return subprocess.Popen(["sleep", "1000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except OSError:
            time.sleep(0.1)


blame(pid=os.getpid())
ready()
workers = [spawn() for _ in range(100)]
