"""A worker dies of SIGSEGV in native code, and its parent fails."""
# expect: failed crashed
# asked: at the end
import ctypes
import os
import sys
import time
from kit import blame, ready, role, start

if role() == "worker":
    blame(pid=os.getpid())
    time.sleep(2)
    ctypes.string_at(8)
ready()
sys.exit(1 if start("worker").wait() else 0)
