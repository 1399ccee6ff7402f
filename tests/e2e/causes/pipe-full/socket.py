"""A worker sends results over a socket that its parent does not read, because it waits for the worker to end."""
# expect: hung pipe-full|waiting-for-peer
import os
import socket
from kit import blame, end_with_parent, ready

near, far = socket.socketpair()
child = os.fork()
if child == 0:
    end_with_parent()
    near.close()
    while True:
        far.sendall(b"x" * 4096)
far.close()
blame(pid=os.getpid())
ready()
os.waitpid(child, 0)
