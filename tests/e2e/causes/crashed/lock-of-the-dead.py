"""A worker is killed while it holds a lock that its brothers want."""
# expect: hung crashed
import multiprocessing
import os
import signal
import time
from kit import blame, end_with_parent, ready, spare


def append(number, lock):
    end_with_parent()
    (blame if number == 0 else spare)(pid=os.getpid())
    time.sleep(number)
    with lock:
        if number == 0:
            os.kill(os.getpid(), signal.SIGKILL)


fork = multiprocessing.get_context("fork")
lock = fork.Lock()
workers = [fork.Process(target=append, args=(number, lock)) for number in range(3)]
for worker in workers:
    worker.start()
ready()
for worker in workers[1:]:
    worker.join()
