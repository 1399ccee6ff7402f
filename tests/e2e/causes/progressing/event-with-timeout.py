"""A main thread waits for an event for a while, again and again."""
# expect: healthy progressing
import threading
from kit import ready

done = threading.Event()
ready()
while not done.wait(0.3):
    pass
