"""A child is forked while a lock is held that it never wants."""
# expect: healthy progressing
import os
import threading
import time
from kit import end_with_parent, ready

lock, held = threading.Lock(), threading.Event()


def keep():
    with lock:
        held.set()
        time.sleep(600)


threading.Thread(target=keep, daemon=True).start()
held.wait()
if os.fork() == 0:
    end_with_parent()
    while True:
        time.sleep(0.1)
ready()
for step in range(10**9):
    time.sleep(0.1)
