"""A client asks for a connection that a full queue never takes."""
# expect: hung waiting-for-peer
import os
import socket
from kit import blame, join, ready, role, start

if role() == "ask":
    blame(pid=os.getpid())
    ready()
    socket.create_connection(("127.0.0.1", int(os.environ["PORT"])))
    socket.create_connection(("127.0.0.1", int(os.environ["PORT"])))
    socket.create_connection(("127.0.0.1", int(os.environ["PORT"])))
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(0)
client = start("ask", env={"PORT": str(server.getsockname()[1])})
join([client])
