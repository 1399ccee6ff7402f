"""Workers of a pool wait for work, while their parent prepares it slowly."""
# expect: healthy progressing
import multiprocessing
import time
from kit import end_with_parent, ready


def prepare():
    for step in range(10**9):
        time.sleep(0.2)


with multiprocessing.get_context("fork").Pool(3, initializer=end_with_parent) as pool:
    pool.map(abs, range(10))
    ready()
    prepare()
