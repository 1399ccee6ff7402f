"""Two processes lock two files (flock) in opposite order."""
# expect: hung deadlock|file-lock
import fcntl
import os
from kit import blame, end_with_parent, exists, ready, touch, until


def locked(first, second, mine, other):
    with open(first, "w") as one, open(second, "w") as two:
        fcntl.flock(one, fcntl.LOCK_EX)
        touch(mine)
        until(exists(other))
        fcntl.flock(two, fcntl.LOCK_EX)


child = os.fork()
if child == 0:
    end_with_parent()
    locked("a", "b", "first", "second")
blame(pid=child)
blame(pid=os.getpid())
ready()
locked("b", "a", "second", "first")
