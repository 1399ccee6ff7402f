"""A parent waits for results of workers that compute for long."""
# expect: healthy progressing
import hashlib
import multiprocessing
from kit import end_with_parent, ready


def compute(number):
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 20_000_000)


with multiprocessing.get_context("fork").Pool(2, initializer=end_with_parent) as pool:
    ready()
    pool.map(compute, range(4))
