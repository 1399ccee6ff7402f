"""A loader tries again and again to make a piece of shared memory, for which there is no room."""
# expect: hung shm-full
# needs: root
import mmap
import os
import time
from kit import blame, mount_tmpfs, private_mounts, ready


def allocate(name, size):
    file = os.open("/dev/shm/" + name, os.O_RDWR | os.O_CREAT)
    while True:
        try:
            os.posix_fallocate(file, 0, size)
            return file
        except OSError:
            time.sleep(0.1)


private_mounts()
mount_tmpfs("/dev/shm", "size=16m")
blame(pid=os.getpid())
ready()
files = [allocate("batch-%d" % number, 5 << 20) for number in range(10)]
