"""A loop counted its steps and then turns at one line for ever."""
# expect: hung busy-loop
# patience: 20
import os
import time
from kit import blame, ready


def converge(value):
    while value > 1:
        pass


def train():
    for step in range(10**9):
        time.sleep(0.05)
        if step == 40:
            ready()
            converge(2)


blame(pid=os.getpid())
train()
