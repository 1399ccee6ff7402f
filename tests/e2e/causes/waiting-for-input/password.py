"""A password is asked for on the controlling terminal."""
# expect: hung waiting-for-input
import getpass
import os
import pty
from kit import blame, end_with_parent, ready

child, terminal = pty.fork()
if child == 0:
    end_with_parent()
    getpass.getpass("Password of the store: ")
    os._exit(0)
blame(pid=child)
ready()
os.waitpid(child, 0)
