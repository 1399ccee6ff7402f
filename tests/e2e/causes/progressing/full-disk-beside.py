"""A disk is full, and the job that runs in it needs no more of it."""
# expect: healthy progressing
# needs: root
import os
import time
from kit import mount_tmpfs, private_mounts, ready

private_mounts()
mount_tmpfs("data", "size=1m")
os.chdir("data")
try:
    with open("file", "wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
except OSError:
    pass
ready()
for step in range(10**9):
    time.sleep(0.1)
