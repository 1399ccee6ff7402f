"""The main process dies of a fault."""
# expect: failed crashed
# asked: at the end
import ctypes
import os
import time
from kit import blame, ready

blame(pid=os.getpid())
ready()
time.sleep(2)
ctypes.string_at(8)
