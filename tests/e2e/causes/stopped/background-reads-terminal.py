"""A child in the background of a terminal reads from it and is stopped by SIGTTIN."""
# expect: hung stopped
import os
import pty
import signal
import time
from kit import blame, end_with_parent, ready

session, terminal = pty.fork()
if session == 0:
    end_with_parent()
    child = os.fork()
    if child == 0:
        end_with_parent()
        os.setpgid(0, 0)
        os.read(0, 1)
        os._exit(0)
    blame(pid=child)
    ready()
    os.waitpid(child, 0)
os.waitpid(session, 0)
