"""Stages of a task for taskscope: `with stage("load"): ...`, or `@stage("load")` above a function (not an async one).

Copy this file beside your code. Python 3.6 and later, standard library only. Safe in threads, asyncio tasks (Python 3.7) and after
a fork. It does nothing where no collector listens. Where a socket is full it waits for room: 100 ms at most, or the seconds that
TASKSCOPE_STAGE_WAIT says (0: never), and after a wait in vain not again before there was room."""
import atexit, collections, contextlib, functools, itertools, os, select, socket, threading, time
try:
    from contextvars import ContextVar
except ImportError:  # Python 3.6: a value for each thread is the best there is
    class ContextVar(threading.local):
        def __init__(self, name, default=None): self.value = default
        def get(self): return self.value
        def set(self, value): before, self.value = self.value, value; return before
        reset = set
_ids, _skipped, _may_wait = itertools.count(1), [0], [True]
_inside = ContextVar("taskscope_stage", default=os.environ.get("TASKSCOPE_STAGE", ""))
_late = collections.deque(maxlen=1000)  # ends that found no room in the socket, for the next stage to send
_thread = getattr(threading, "get_native_id", None)  # Python 3.8
try:
    _wait = min(3600.0, max(0.0, float(os.environ.get("TASKSCOPE_STAGE_WAIT", "0.1"))))
except ValueError:
    _wait = 0.1
try:
    _socket = socket.socket(socket.AF_UNIX)
    _socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)  # the kernel gives as much of it as it allows
    _socket.setblocking(False)
    _socket.connect(os.environ["TASKSCOPE_SOCKET"])
except (OSError, KeyError):
    _socket = None
atexit.register(lambda: _late and _send(_late.popleft()))
@functools.lru_cache(maxsize=1024)
def _clean(name):
    return " ".join(str(name).split()).encode("utf-8", "replace")[:200].decode("utf-8", "ignore").strip() or "?"

def _send(line):
    while _late:
        try:
            late = _late.popleft()
        except IndexError:  # another thread was faster
            break
        if not _write(late):
            _late.appendleft(late)
            return False
    return _write(line)

def _write(line):
    while True:
        try:
            _may_wait[0] = bool(_socket.send(line))
            return True
        except BlockingIOError:
            room = select.poll()
            room.register(_socket, select.POLLOUT)
            _may_wait[0] = _may_wait[0] and bool(room.poll(_wait * 1000))
            if not _may_wait[0]:
                return False
        except OSError:  # no collector any more
            return False

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
