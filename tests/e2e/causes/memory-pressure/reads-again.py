"""Workers go round a file that their cgroup has no room for: each page that one needs drives another one out."""
# expect: slow|hung memory-pressure
# needs: cgroup memory pressure
import mmap
import os
from kit import Cgroup, ready, role, start

SIZE, LIMIT = 120 << 20, 48 << 20
if role() == "scan":
    with open("corpus.bin", "rb") as corpus:
        pages = mmap.mmap(corpus.fileno(), 0, prot=mmap.PROT_READ)
        total = 0
        while True:
            for position in range(0, SIZE, mmap.PAGESIZE):
                total += pages[position]
with open("corpus.bin", "wb") as corpus:
    corpus.write(b"\2" * SIZE)
    corpus.flush()
    os.fsync(corpus.fileno())
    os.posix_fadvise(corpus.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
limit = Cgroup("memory", memory__limit_in_bytes=LIMIT)
workers = [start("scan", preexec_fn=lambda: limit.add(os.getpid())) for _ in range(3)]
ready()
workers[0].wait()
