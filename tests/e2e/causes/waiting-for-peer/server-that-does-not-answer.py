"""A client waits for the answer of a server of the task, which looks for a file that does not come."""
# expect: hung waiting-for-peer
import os
import socket
import time
from kit import blame, ready, role, start

if role() == "serve":
    server = socket.socket(fileno=0)
    connection, _ = server.accept()
    connection.recv(10)
    blame(pid=os.getpid())
    ready()
    while not os.path.exists("model"):
        time.sleep(0.1)
if role() == "ask":
    with socket.create_connection(("127.0.0.1", int(os.environ["PORT"]))) as connection:
        connection.sendall(b"hello")
        print(connection.recv(10))
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(8)
start("serve", stdin=server)
client = start("ask", env={"PORT": str(server.getsockname()[1])})
server.close()
client.wait()
