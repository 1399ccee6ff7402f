"""A job ends well."""
# expect: finished finished
# asked: at the end
import time
from kit import ready, role, start

if role():
    time.sleep(2)
    raise SystemExit(0)
ready()
start("child").wait()
