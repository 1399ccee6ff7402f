"""A rank that counts steps at a given rate: in a function where its RANK is even, in the module itself where it is odd."""

import os
import sys
import time


def pace(start, count, rate):
    """Sleeps until step `count` is due; one that is late does not make the next ones late."""
    time.sleep(max(0.0, start + count / rate - time.monotonic()))


def train(rate):
    start, step = time.monotonic(), 0
    while True:
        step += 1
        pace(start, step, rate)


rate = float(sys.argv[1 + int(os.environ["RANK"])])
os.write(1, b"ready\n")  # in one piece: others write to the same pipe
if int(os.environ["RANK"]) % 2 == 0:
    train(rate)
started, global_step = time.monotonic(), 0
while True:
    global_step += 1
    pace(started, global_step, rate)
