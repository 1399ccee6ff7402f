"""A worker holds a lock on a file and works; the others wait for their turn."""
# expect: healthy progressing
import fcntl
import time
from kit import ready, role, start


def build():
    with open("build.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for step in range(10**9):
            time.sleep(0.05)


if role():
    build()
workers = [start("build") for _ in range(3)]
ready()
for worker in workers:
    worker.wait()
