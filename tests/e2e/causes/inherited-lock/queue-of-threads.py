"""A child is forked while a thread holds the mutex of a queue that the child puts to."""
# expect: hung inherited-lock
import os
import queue
import threading
import time
from kit import blame, end_with_parent, ready

metrics, held = queue.Queue(), threading.Event()


def drain():
    with metrics.mutex:
        held.set()
        time.sleep(2)


threading.Thread(target=drain).start()
held.wait()
child = os.fork()
if child == 0:
    end_with_parent()
    metrics.put(1)
    os._exit(0)
blame(pid=child)
ready()
os.waitpid(child, 0)
