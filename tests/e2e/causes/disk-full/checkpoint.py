"""A job tries again and again to write a checkpoint to a full disk."""
# expect: hung disk-full
# needs: root
import os
import time
from kit import blame, mount_tmpfs, private_mounts, ready


def save(path):
    with open(path, "wb", buffering=0) as file:
        written = 0
        while written < 64 << 20:
            try:
                written += file.write(b"x" * (1 << 20))
            except OSError:
                time.sleep(0.2)


private_mounts()
mount_tmpfs("checkpoints", "size=8m")
os.chdir("checkpoints")
blame(pid=os.getpid())
ready()
save("model.pt")
