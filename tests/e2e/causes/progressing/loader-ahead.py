"""A loader is ahead of its consumer and waits for room; the consumer computes."""
# expect: healthy progressing
import multiprocessing
import time
from kit import end_with_parent, ready


def load(batches):
    end_with_parent()
    while True:
        batches.put(b"x" * 100000)


fork = multiprocessing.get_context("fork")
batches = fork.Queue(4)
fork.Process(target=load, args=(batches,), daemon=True).start()
ready()
for step in range(10**9):
    batches.get()
    time.sleep(0.8)
