"""A tool asks a question on a terminal that nobody sits at."""
# expect: hung waiting-for-input
import os
import pty
from kit import blame, ready, start, role

if role() == "ask":
    input("Overwrite the checkpoint? [y/n] ")
near, far = pty.openpty()
child = start("ask", stdin=far, stdout=far)
os.close(far)
blame(pid=child.pid)
ready()
child.wait()
