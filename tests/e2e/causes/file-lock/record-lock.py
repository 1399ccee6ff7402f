"""A process holds a record lock (lockf) and waits for a signal; another wants the lock."""
# expect: hung file-lock
import fcntl
import os
import signal
from kit import blame, exists, ready, role, spare, start, touch, until

if role() == "hold":
    lock = open("index", "w")
    fcntl.lockf(lock, fcntl.LOCK_EX)
    blame(pid=os.getpid())
    touch("held")
    signal.pause()
if role() == "want":
    lock = open("index", "w")
    spare(pid=os.getpid())
    fcntl.lockf(lock, fcntl.LOCK_EX)
holder = start("hold")
until(exists("held"))
ready()
start("want").wait()
