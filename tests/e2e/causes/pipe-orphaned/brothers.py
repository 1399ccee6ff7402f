"""Three workers read one pipe and hold each other's writing ends; the feeder has ended."""
# expect: hung pipe-orphaned
import os
from kit import blame, end_with_parent, ready

read, write = os.pipe()
workers = []
for _ in range(3):
    worker = os.fork()
    if worker == 0:
        end_with_parent()
        while os.read(read, 100):
            pass
        os._exit(0)
    workers.append(worker)
    blame(pid=worker)
os.close(read)
os.write(write, b"job")
os.close(write)
ready()
for worker in workers:
    os.waitpid(worker, 0)
