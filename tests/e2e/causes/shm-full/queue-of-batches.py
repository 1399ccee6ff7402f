"""A consumer waits for batches that its loader cannot place in shared memory."""
# expect: hung shm-full
# needs: root
import multiprocessing
import multiprocessing.shared_memory
import os
import time
from kit import blame, end_with_parent, mount_tmpfs, private_mounts, ready


def load(batches):
    end_with_parent()
    kept = []
    for number in range(10**9):
        while True:
            try:
                piece = os.open("/dev/shm/batch-%d" % number, os.O_RDWR | os.O_CREAT)
                os.posix_fallocate(piece, 0, 3 << 20)
                break
            except OSError:
                os.close(piece)
                time.sleep(0.2)
        kept.append(piece)
        batches.put(number)


private_mounts()
mount_tmpfs("/dev/shm", "size=16m")
fork = multiprocessing.get_context("fork")
batches = fork.Queue()
loader = fork.Process(target=load, args=(batches,))
loader.start()
blame(pid=loader.pid)
ready()
while True:
    batches.get()
