"""Threads take turns at one lock, and each holds it for a while."""
# expect: healthy progressing
import threading
import time
from kit import ready

lock = threading.Lock()


def work():
    while True:
        with lock:
            time.sleep(0.3)


threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
ready()
for thread in threads:
    thread.join()
