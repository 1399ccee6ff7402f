"""A parent polls shared memory for a result of a child that has ended."""
# expect: hung|failed zombie-unreaped
import multiprocessing
import os
import time
from kit import blame, ready


def compute(result):
    os._exit(3)


fork = multiprocessing.get_context("fork")
result = fork.Value("i", 0)
child = fork.Process(target=compute, args=(result,))
child.start()
blame(pid=os.getpid())
ready()
while not result.value:
    time.sleep(0.05)
