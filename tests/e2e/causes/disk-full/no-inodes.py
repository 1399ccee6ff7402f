"""A job tries again and again to make a file where no inode is left."""
# expect: hung disk-full
# needs: root
import os
import time
from kit import blame, mount_tmpfs, private_mounts, ready


def make(number):
    while True:
        try:
            return open("sample-%d" % number, "w").close()
        except OSError:
            time.sleep(0.2)


private_mounts()
mount_tmpfs("samples", "size=8m,nr_inodes=50")
os.chdir("samples")
blame(pid=os.getpid())
ready()
for number in range(1000):
    make(number)
