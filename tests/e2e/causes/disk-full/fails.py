"""A job fails because the disk that it writes its log to is full."""
# expect: failed disk-full|crashed
# needs: root
# asked: at the end
import os
import time
from kit import blame, mount_tmpfs, private_mounts, ready

private_mounts()
mount_tmpfs("logs", "size=4m")
os.chdir("logs")
blame(pid=os.getpid())
ready()
with open("log", "wb", buffering=0) as log:
    for _ in range(100):
        if log.write(b"x" * (1 << 18)) < 1 << 18:
            time.sleep(2)
        time.sleep(0.1)
