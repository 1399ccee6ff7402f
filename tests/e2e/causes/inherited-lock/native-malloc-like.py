"""A child is forked while a native mutex (of a library) is held by a thread of the parent."""
# expect: hung inherited-lock
import ctypes
import os
import threading
import time
from kit import blame, end_with_parent, libc, ready

mutex, held = ctypes.create_string_buffer(64), threading.Event()


def keep():
    libc.pthread_mutex_lock(mutex)
    held.set()
    time.sleep(10**6)


threading.Thread(target=keep, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    end_with_parent()
    libc.pthread_mutex_lock(mutex)
    os._exit(0)
blame(pid=child)
ready()
os.waitpid(child, 0)
