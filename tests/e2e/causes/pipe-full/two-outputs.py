"""A parent reads its child's output to the end, while the child waits for room in its errors."""
# expect: hung pipe-full|deadlock
import os
import subprocess
import sys
from kit import blame, ready, role, start

if role() == "child":
    for number in range(10**6):
        sys.stderr.write("warning %d\n" % number)
    print("done")
    sys.exit()
child = start("child", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
blame(pid=os.getpid())
ready()
print(child.stdout.read(), child.stderr.read())
