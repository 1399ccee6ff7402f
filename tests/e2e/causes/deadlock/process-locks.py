"""Two processes take two semaphores in opposite order."""
# expect: hung deadlock
import multiprocessing
import os
import time
from kit import blame, end_with_parent, ready


def transfer(first, second, met):
    end_with_parent()
    with first:
        met.wait()
        with second:
            pass


fork = multiprocessing.get_context("fork")
one, two, met = fork.Lock(), fork.Lock(), fork.Barrier(2)
children = [fork.Process(target=transfer, args=pair) for pair in ((one, two, met), (two, one, met))]
for child in children:
    child.start()
    blame(pid=child.pid)
ready()
for child in children:
    child.join()
