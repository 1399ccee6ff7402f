"""Two processes each read what the other would write first."""
# expect: hung deadlock
import os
from kit import blame, end_with_parent, ready

down_read, down_write = os.pipe()
up_read, up_write = os.pipe()
child = os.fork()
if child == 0:
    end_with_parent()
    os.close(down_write)
    os.close(up_read)
    blame(pid=os.getpid())
    os.read(down_read, 1)
    os.write(up_write, b"x")
    os._exit(0)
os.close(down_read)
os.close(up_write)
blame(pid=os.getpid())
ready()
os.read(up_read, 1)
os.write(down_write, b"x")
