"""A process reads from a file server that does not answer any more."""
# expect: hung storage-stall
# needs: root fuse
import os
import fuse

fuse.stall(fuse.READ, lambda file: os.pread(file, 1 << 16, 1 << 20))
