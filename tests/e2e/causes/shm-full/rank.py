"""A rank tries again to make shared memory; the others wait for it."""
# expect: hung shm-full
# needs: root
import os
import time
from kit import Meeting, blame, join, mount_tmpfs, private_mounts, ready, role, spare, start_ranks


def stage(step):
    with open("/dev/shm/stage-%d" % step, "wb") as file:
        while True:
            try:
                file.seek(0)
                file.write(b"x" * (2 << 20))
                file.flush()
                return
            except OSError:
                time.sleep(0.1)


if role() == "rank":
    meeting = Meeting()
    (blame if meeting.rank == 2 else spare)(rank=meeting.rank)
    for step in range(10**9):
        if meeting.rank == 2:
            stage(step)
        meeting.all_reduce()
        time.sleep(0.05)
private_mounts()
mount_tmpfs("/dev/shm", "size=16m")
ranks = start_ranks(3)
ready()
join(ranks)
