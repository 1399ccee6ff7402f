"""A breakpoint was left in the program; nobody answers the debugger."""
# expect: hung waiting-for-input
import os
import pty
import sys
from kit import blame, ready, start, role


def forward(batch):
    breakpoint()
    return batch


if role() == "train":
    forward(1)
    sys.exit()
near, far = pty.openpty()
child = start("train", stdin=far, stdout=far)
os.close(far)
blame(pid=child.pid)
ready()
child.wait()
