"""A process looks for a file on a server that does not answer any more."""
# expect: hung storage-stall
# needs: root fuse
import os
import fuse

fuse.stall(fuse.LOOKUP, lambda file: os.path.exists("share/checkpoint"))
