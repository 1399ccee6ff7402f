"""A process computes in one long call of native code."""
# expect: healthy progressing
import hashlib
from kit import ready

ready()
while True:
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 20_000_000)
