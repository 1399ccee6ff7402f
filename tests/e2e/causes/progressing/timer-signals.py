"""A process waits for the signals of its timer."""
# expect: healthy progressing
import signal
from kit import ready

signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3)
ready()
while True:
    signal.pause()
