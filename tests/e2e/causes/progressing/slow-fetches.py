"""Threads of a pool fetch slowly, and the main thread waits for them."""
# expect: healthy progressing
import concurrent.futures
import time
from kit import ready


def fetch(number):
    for step in range(20):
        time.sleep(0.3)


with concurrent.futures.ThreadPoolExecutor(4) as pool:
    ready()
    list(pool.map(fetch, range(1000)))
