"""A worker holds a lock on a file and waits for a file that does not come; two others want the lock."""
# expect: hung file-lock
import fcntl
import os
import time
from kit import blame, exists, ready, role, spare, start, touch, until


def build():
    with open("build.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        touch("held")
        while not os.path.exists("compiled"):
            time.sleep(0.1)


if role():
    (blame if role() == "first" else spare)(pid=os.getpid())
    build()
workers = [start("first")]
until(exists("held"))
workers += [start("second"), start("third")]
ready()
for worker in workers[::-1]:
    worker.wait()
