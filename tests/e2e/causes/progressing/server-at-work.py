"""A client waits for a server that computes its answer."""
# expect: healthy progressing
import hashlib
import os
import socket
from kit import ready, role, start

if role() == "serve":
    server = socket.socket(fileno=0)
    connection, _ = server.accept()
    ready()
    for step in range(10**9):
        digest = hashlib.sha256(b"x" * 10**6).digest()
if role() == "ask":
    with socket.create_connection(("127.0.0.1", int(os.environ["PORT"]))) as connection:
        connection.recv(1)
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(8)
start("serve", stdin=server)
client = start("ask", env={"PORT": str(server.getsockname()[1])})
server.close()
client.wait()
