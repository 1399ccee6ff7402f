"""A child is joined before its queue is read: its feeder thread waits for room in the pipe."""
# expect: hung pipe-full|deadlock
import multiprocessing
import os
from kit import blame, end_with_parent, ready


def produce(queue):
    end_with_parent()
    queue.put(b"x" * (1 << 22))


fork = multiprocessing.get_context("fork")
queue = fork.Queue()
child = fork.Process(target=produce, args=(queue,))
child.start()
blame(pid=os.getpid())
blame(pid=child.pid)
ready()
child.join()
print(queue.get())
