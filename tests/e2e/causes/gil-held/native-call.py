"""A native function that sleeps is called with the interpreter lock held."""
# expect: hung|slow gil-held
import ctypes
import os
import re
import threading
import time
from kit import blame, ready

native = ctypes.PyDLL(None)


def work():
    blame(pid=os.getpid(), thread=threading.get_native_id())
    ready()
    native.sleep(600)


threading.Thread(target=work, name="worker", daemon=True).start()
while True:
    time.sleep(0.05)
