"""A process waits for the answer of a service that does not even accept it."""
# expect: hung waiting-for-peer
import os
import socket
from kit import blame, join, ready, role, start

server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(8)
port = server.getsockname()[1]
if role() == "ask":
    connection = socket.create_connection(("127.0.0.1", int(os.environ["PORT"])))
    blame(pid=os.getpid())
    ready()
    connection.recv(1)
blame(pid=os.getpid())
join([start("ask", env={"PORT": str(port)})])
