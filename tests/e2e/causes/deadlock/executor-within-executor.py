"""A task of a pool with one thread waits for another task of that pool."""
# expect: hung deadlock
import concurrent.futures
import os
from kit import blame, ready

pool = concurrent.futures.ThreadPoolExecutor(1)


def inner():
    return 1


def outer():
    return pool.submit(inner).result()


blame(pid=os.getpid())
ready()
print(pool.submit(outer).result())
