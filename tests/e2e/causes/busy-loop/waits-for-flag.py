"""Workers meet at a barrier, all but one, which turns until a flag is set that nobody sets."""
# expect: hung busy-loop|rank-behind
import multiprocessing
import os
from kit import blame, end_with_parent, ready


def until_set(flag):
    while not flag.value:
        pass


def work(number, barrier, flag):
    end_with_parent()
    if number == 2:
        blame(pid=os.getpid())
    if number == 2:
        until_set(flag)
    barrier.wait()


fork = multiprocessing.get_context("fork")
barrier, flag = fork.Barrier(3), fork.Value("b", 0, lock=False)
workers = [fork.Process(target=work, args=(number, barrier, flag)) for number in range(3)]
for worker in workers:
    worker.start()
ready()
for worker in workers:
    worker.join()
