"""A process reads from a file server that does not answer any more."""
# expect: hung storage-stall
# needs: root fuse
import os
import threading
import time
import fuse
from kit import blame, private_mounts, ready, role, start


def hang(operation):
    if operation == fuse.READ and os.path.exists("broken"):
        threading.Event().wait()


if role() == "serve":
    fuse.serve(0, hang)
if role() == "use":
    os.stat("share/data")
    file = os.open("share/data", os.O_RDWR)
    blame(pid=os.getpid())
    time.sleep(1)
    open("broken", "w").close()
    ready()
    os.pread(file, 1 << 16, 1 << 20)
private_mounts()
device = fuse.mount("share")
start("serve", stdin=device)
os.close(device)
user = start("use")
blame(pid=user.pid)
while user.poll() is None:
    time.sleep(0.2)
