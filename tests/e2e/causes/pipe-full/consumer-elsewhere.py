"""A consumer of a pipe waits for a file that does not come, and its producer for room."""
# expect: hung pipe-full
import os
from kit import blame, ready, role, start

if role() == "produce":
    while True:
        os.write(1, b"x" * 4096)
if role() == "consume":
    os.read(0, 4096)
    blame(pid=os.getpid())
    ready()
    open("gate").read()
os.mkfifo("gate")
read, write = os.pipe()
producer = start("produce", stdout=write)
consumer = start("consume", stdin=read)
os.close(read)
os.close(write)
consumer.wait()
