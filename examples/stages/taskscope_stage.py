"""Stages of a task for taskscope: `with stage("load"): ...`, or `@stage("load")` above a function (not an async one).

Copy this file beside your code. Python 3.6 and later, standard library only. Safe in threads, asyncio tasks (Python 3.7) and
after a fork. It never waits for anybody, and does nothing where no collector listens."""
import atexit, collections, contextlib, functools, itertools, os, socket, threading, time
try:
    from contextvars import ContextVar
except ImportError:  # Python 3.6: a value for each thread is the best there is
    class ContextVar(threading.local):
        def __init__(self, name, default=None): self.value = default
        def get(self): return self.value
        def set(self, value): before, self.value = self.value, value; return before
        reset = set
_ids, _skipped = itertools.count(1), [0]
_inside = ContextVar("taskscope_stage", default=os.environ.get("TASKSCOPE_STAGE", ""))
_late = collections.deque(maxlen=1000)  # ends that found no room in the socket, for the next stage to send
_thread = getattr(threading, "get_native_id", None)  # Python 3.8
try:
    _socket = socket.socket(socket.AF_UNIX)
    _socket.setblocking(False)
    _socket.connect(os.environ["TASKSCOPE_SOCKET"])
except (OSError, KeyError):
    _socket = None
atexit.register(lambda: _late and _send(_late.popleft()))
@functools.lru_cache(maxsize=1024)
def _clean(name):
    return " ".join(str(name).split()).encode("utf-8", "replace")[:200].decode("utf-8", "ignore").strip() or "?"

def _send(line):
    try:
        while _late:
            _socket.send(_late[0])
            _late.popleft()
        return _socket.send(line)
    except (OSError, IndexError):  # no room, no collector any more, or another thread was faster
        return None

@contextlib.contextmanager
def stage(name):
    if _socket is None:
        yield
        return
    number, outer, us = next(_ids), _inside.get(), "%d:" % os.getpid()
    line = "stage begin id=%d thread=%d" % (number, _thread()) if _thread else "stage begin id=%d" % number
    line += " parent=" + (outer[len(us):] if outer.startswith(us) else outer) if outer else ""
    line += " skipped=%d" % _skipped[0] if _skipped[0] else ""
    is_told = _send((line + " name=%s\n" % _clean(name)).encode())
    _skipped[0] = 0 if is_told else _skipped[0] + 1
    token, error, begun = _inside.set(us + str(number)), "", time.perf_counter()
    try:
        yield
    except BaseException as raised:
        error = " error=" + type(raised).__name__[:100]
        raise
    finally:
        line = "stage end id=%d seconds=%.9f%s\n" % (number, time.perf_counter() - begun, error)
        _inside.reset(token)
        if is_told and not _send(line.encode("ascii", "replace")):
            _late.append(line.encode("ascii", "replace"))
