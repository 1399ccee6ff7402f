"""Memory has run out, and the killer is switched off: whoever asks for more waits."""
# expect: hung|slow memory-pressure
# needs: cgroup memory
import os
import time
from kit import Cgroup, blame, ready, role, start

if role() == "job":
    kept = []
    while True:
        kept.append(b"x" * (4 << 20))
        time.sleep(0.05)
limit = Cgroup("memory", memory__limit_in_bytes=64 << 20, memory__oom_control=1)
job = start("job", preexec_fn=lambda: limit.add(os.getpid()))
blame(pid=job.pid)
ready()
job.wait()
