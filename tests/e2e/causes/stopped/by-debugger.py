"""A worker is held by a debugger."""
# expect: hung stopped
import ctypes
import os
import time
from kit import blame, end_with_parent, libc, ready

PTRACE_ATTACH = 16
worker = os.fork()
if worker == 0:
    end_with_parent()
    while True:
        time.sleep(0.1)
time.sleep(0.5)
if libc.ptrace(PTRACE_ATTACH, worker, 0, 0) != 0:
    raise OSError(ctypes.get_errno(), "ptrace")
libc.waitpid(worker, None, 1 << 30)
blame(pid=worker)
ready()
while True:
    time.sleep(0.5)
