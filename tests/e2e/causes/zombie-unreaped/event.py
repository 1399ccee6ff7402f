"""A worker was killed, and its parent waits for the event that it would have set."""
# expect: hung|failed zombie-unreaped|deadlock|crashed
import multiprocessing
import os
import signal
from kit import blame, end_with_parent, ready


def warm_up(done):
    end_with_parent()
    os.kill(os.getpid(), signal.SIGKILL)
    done.set()


fork = multiprocessing.get_context("fork")
done = fork.Event()
worker = fork.Process(target=warm_up, args=(done,))
worker.start()
blame(pid=os.getpid())
blame(pid=worker.pid)
ready()
done.wait()
