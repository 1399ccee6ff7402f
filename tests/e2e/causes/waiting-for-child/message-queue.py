"""A child waits for a message of a System V queue that nobody sends."""
# expect: hung waiting-for-child
import ctypes
import os
from kit import blame, libc, ready, role, start

if role() == "child":
    queue = libc.msgget(0, 0o1600)
    buffer = ctypes.create_string_buffer(64)
    libc.msgrcv(queue, buffer, 8, 0, 0)
child = start("child")
blame(pid=child.pid)
ready()
child.wait()
