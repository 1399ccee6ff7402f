"""A process writes to a file server that does not answer any more."""
# expect: hung storage-stall
# needs: root fuse
import os
import fuse


def write(file):
    os.write(file, b"x" * 4096)
    os.close(file)


fuse.stall(fuse.WRITE, write)
