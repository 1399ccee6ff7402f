"""A busy main thread beside many idle ones, from a line on stdin on; after SECONDS it prints how long each of its equal steps took, microseconds."""

import sys
import threading
import time

threads, seconds, work = int(sys.argv[1]), float(sys.argv[2]), 5_000
for _ in range(threads - 1):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
steps, until = [], time.monotonic() + seconds
while time.monotonic() < until:
    begun, value = time.perf_counter_ns(), 0
    for number in range(work):
        value += number & 7
    steps.append((time.perf_counter_ns() - begun) // 1000)
print(*steps, flush=True)
threading.Event().wait()
