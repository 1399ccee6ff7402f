"""A server has no descriptor left to accept with, and tries again."""
# expect: hung fd-exhausted
import os
import resource
import socket
import time
from kit import blame, ready

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(64)
kept = []


def accept():
    while True:
        try:
            return server.accept()
        except OSError:
            time.sleep(0.1)


blame(pid=os.getpid())
ready()
try:
    while True:
        kept.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
os.close(kept.pop())
client = socket.create_connection(server.getsockname())
accept()
