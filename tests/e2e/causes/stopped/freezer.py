"""A worker's cgroup is frozen."""
# expect: hung stopped
# needs: cgroup freezer
import os
import time
from kit import Cgroup, blame, end_with_parent, ready

freezer = Cgroup("freezer")
freezer.ends.append(lambda: freezer.write("freezer.state", "THAWED"))
worker = os.fork()
if worker == 0:
    end_with_parent()
    for number in range(10**9):
        time.sleep(0.1)
freezer.add(worker)
time.sleep(1)
freezer.write("freezer.state", "FROZEN")
blame(pid=worker)
ready()
os.waitpid(worker, 0)
