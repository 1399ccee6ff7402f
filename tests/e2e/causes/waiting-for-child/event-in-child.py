"""A process is joined that waits for an event which only its parent would set."""
# expect: hung waiting-for-child|deadlock
import multiprocessing
import os
from kit import blame, end_with_parent, ready


def work(go):
    end_with_parent()
    go.wait()


fork = multiprocessing.get_context("fork")
go = fork.Event()
child = fork.Process(target=work, args=(go,))
child.start()
blame(pid=child.pid)
blame(pid=os.getpid())
ready()
child.join()
