"""A consumer of a queue waits for items, which its brother makes slowly."""
# expect: healthy progressing
import multiprocessing
import time
from kit import end_with_parent, ready


def produce(items):
    end_with_parent()
    for step in range(10**9):
        time.sleep(2)
        items.put(step)


def consume(items):
    end_with_parent()
    while True:
        items.get()


fork = multiprocessing.get_context("fork")
items = fork.Queue()
children = [fork.Process(target=target, args=(items,)) for target in (produce, consume, consume)]
for child in children:
    child.start()
ready()
for child in children:
    child.join()
