"""A process opens its lock file twice and waits for itself."""
# expect: hung file-lock|deadlock
import fcntl
import os
from kit import blame, ready


def locked():
    lock = open("cache.lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


blame(pid=os.getpid())
first = locked()
ready()
second = locked()
