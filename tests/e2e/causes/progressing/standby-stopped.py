"""A helper is stopped on purpose until it is needed; the job gets on."""
# expect: healthy progressing
import os
import signal
import time
from kit import ready, role, start

if role():
    time.sleep(600)
helper = start("standby")
time.sleep(0.5)
os.kill(helper.pid, signal.SIGSTOP)
ready()
for step in range(10**9):
    time.sleep(0.1)
