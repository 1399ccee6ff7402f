"""All work is done in a thread; the main thread waits for it to end."""
# expect: healthy progressing
import threading
import time
from kit import ready


def train():
    for step in range(10**9):
        time.sleep(0.1)


thread = threading.Thread(target=train)
thread.start()
ready()
thread.join()
