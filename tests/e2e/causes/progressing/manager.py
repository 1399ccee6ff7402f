"""A manager of multiprocessing serves; the main process sleeps between its rounds."""
# expect: healthy progressing
import multiprocessing
import time
from kit import end_with_parent, ready

manager = multiprocessing.Manager()
shared = manager.dict()
ready()
while True:
    shared["round"] = 1
    time.sleep(0.7)
