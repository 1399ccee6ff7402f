"""A queue is joined, and its consumer ends each item without saying so."""
# expect: hung deadlock
import os
import queue
import threading
from kit import blame, ready

work = queue.Queue()


def consume():
    while True:
        work.get()


threading.Thread(target=consume, daemon=True).start()
work.put(1)
blame(pid=os.getpid())
ready()
work.join()
