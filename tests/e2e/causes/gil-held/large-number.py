"""A number is raised to a large power in one step."""
# expect: hung|slow gil-held
import ctypes
import os
import re
import threading
import time
from kit import blame, ready

EXPONENT, MODULUS = 1 << 60_000_000, 7**2000


def work():
    blame(pid=os.getpid(), thread=threading.get_native_id())
    ready()
    print(pow(3, EXPONENT, MODULUS) % 10)


threading.Thread(target=work, name="worker", daemon=True).start()
while True:
    time.sleep(0.05)
