"""A child waits for a signal that nobody sends."""
# expect: hung|unknown waiting-for-child|unknown
import os
import signal
from kit import blame, ready, role, start

if role() == "child":
    signal.sigwait([signal.SIGUSR1])
child = start("child")
blame(pid=child.pid)
ready()
child.wait()
