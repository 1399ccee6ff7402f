"""A regular expression backtracks and keeps the interpreter lock."""
# expect: hung|slow gil-held
import ctypes
import os
import re
import threading
import time
from kit import blame, ready

LINE = "a" * 48 + "!"


def work():
    blame(pid=os.getpid(), thread=threading.get_native_id())
    ready()
    re.match(r"(a+)+$", LINE)


threading.Thread(target=work, name="worker", daemon=True).start()
while True:
    time.sleep(0.05)
