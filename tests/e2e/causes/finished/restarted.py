"""A worker fails, is started again, and does its work."""
# expect: finished finished
# asked: at the end
import os
import sys
import time
from kit import ready, role, start, touch

if role():
    time.sleep(1.2)
    if not os.path.exists("again"):
        touch("again")
        sys.exit(1)
    sys.exit(0)
ready()
while start("worker").wait():
    pass
