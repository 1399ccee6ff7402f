"""A callback takes the lock that its caller holds."""
# expect: hung deadlock
import os
import threading
from kit import blame, ready

lock = threading.Lock()


def report():
    with lock:
        pass


def update():
    with lock:
        report()


blame(pid=os.getpid(), thread=threading.get_native_id())
ready()
update()
