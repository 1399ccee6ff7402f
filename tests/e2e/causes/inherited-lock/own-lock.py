"""A child is forked while a thread of its parent holds a lock that the child wants."""
# expect: hung inherited-lock
import multiprocessing
import os
import threading
import time
from kit import blame, end_with_parent, ready

lock, held = threading.Lock(), threading.Event()


def flush():
    while True:
        with lock:
            held.set()
            time.sleep(3)


def work():
    end_with_parent()
    with lock:
        print("never")


threading.Thread(target=flush, daemon=True).start()
held.wait()
child = multiprocessing.get_context("fork").Process(target=work)
child.start()
blame(pid=child.pid)
ready()
child.join()
