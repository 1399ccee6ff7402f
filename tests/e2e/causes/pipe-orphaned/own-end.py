"""A worker reads jobs from a pipe whose writing end it kept; the feeder has ended."""
# expect: hung pipe-orphaned
import os
from kit import blame, end_with_parent, ready

read, write = os.pipe()
worker = os.fork()
if worker == 0:
    end_with_parent()
    while os.read(read, 100):
        pass
    os._exit(0)
feeder = os.fork()
if feeder == 0:
    os.write(write, b"job")
    os._exit(0)
os.close(read)
os.close(write)
os.waitpid(feeder, 0)
blame(pid=worker)
ready()
os.waitpid(worker, 0)
