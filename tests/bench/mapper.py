"""Touches MIB of memory; then for each line `SECONDS` on stdin maps, touches and unmaps a page for so long, and prints how long that took, microseconds."""

import json
import mmap
import sys
import time

block = bytearray(int(sys.argv[1]) << 20)
block[::4096] = b"x" * len(block[::4096])
print("ready", flush=True)
for line in sys.stdin:
    took, until = [], time.monotonic() + float(line)
    while time.monotonic() < until:
        begun = time.perf_counter_ns()
        page = mmap.mmap(-1, 4096)
        page[0] = 1
        page.close()
        took.append(time.perf_counter_ns() - begun)
    took.sort()
    at = lambda share: took[min(len(took) - 1, int(share * len(took)))] / 1000
    print(json.dumps({"maps": len(took), "median_us": at(0.5), "p99_us": at(0.99), "p99_9_us": at(0.999), "longest_us": took[-1] / 1000}), flush=True)
