"""All workers of a pool inherit the held lock of a cache."""
# expect: hung inherited-lock
import multiprocessing
import os
import threading
import time
from kit import blame, end_with_parent, ready

lock, held = threading.RLock(), threading.Event()


def refresh():
    with lock:
        held.set()
        time.sleep(10**6)


def lookup(number):
    blame(pid=os.getpid())
    with lock:
        return number


threading.Thread(target=refresh, daemon=True).start()
held.wait()
with multiprocessing.get_context("fork").Pool(2, initializer=end_with_parent) as pool:
    ready()
    print(pool.map(lookup, [1, 2], 1))
