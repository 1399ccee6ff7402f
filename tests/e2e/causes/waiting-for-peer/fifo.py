"""A process opens a FIFO for which nobody comes."""
# expect: hung waiting-for-peer
import os
from kit import blame, ready

os.mkfifo("requests")
blame(pid=os.getpid())
ready()
open("requests", "w")
