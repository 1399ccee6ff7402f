"""The program is done, and waits at its end for a thread that waits for more work."""
# expect: hung deadlock
import os
import queue
import threading
from kit import blame, ready

work = queue.Queue()


def write_metrics():
    while True:
        print(work.get())


thread = threading.Thread(target=write_metrics)
thread.start()
work.put("loss 0.1")
blame(pid=os.getpid())
ready()
