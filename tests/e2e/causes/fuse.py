"""The smallest FUSE file system: one file of zeros, /data, that can be read and written (`fuse_lowlevel.h`, protocol 7.31)."""
import ctypes
import os
import struct
import threading
import time

from kit import blame, libc, private_mounts, ready, role, start

LOOKUP, GETATTR, OPEN, READ, WRITE, INIT, FORGET, FLUSH, FSYNC = 1, 3, 14, 15, 16, 26, 2, 25, 20
FORGETS = (FORGET, 42, 36)
SIZE = 1 << 32


def mount(target):
    """Mounts it and returns the device that it is served by."""
    os.makedirs(target, exist_ok=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = "fd=%d,rootmode=40000,user_id=%d,group_id=%d" % (device, os.getuid(), os.getgid())
    if libc.mount(b"job", target.encode(), b"fuse", 6, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "no FUSE at " + target)
    return device


def attributes(node):
    mode, size = (0o40755, 0) if node == 1 else (0o100644, SIZE)
    return struct.pack("<6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def serve(device, before=lambda operation: None):
    """Answers one request after the other; `before` each it may hang."""
    while True:
        request = os.read(device, 1 << 18)
        _, operation, unique, node = struct.unpack_from("<IIQQ", request)
        before(operation)
        error, body = 0, b""
        if operation == INIT:
            _, _, ahead, _ = struct.unpack_from("<4I", request, 40)
            body = struct.pack("<4I2H2I2H8I", 7, 31, ahead, 1, 16, 12, 65536, 1, 0, 0, *[0] * 8)
        elif operation == LOOKUP:
            body = struct.pack("<4Q2I", 2, 0, 0, 0, 0, 0) + attributes(2)
        elif operation == GETATTR:
            body = struct.pack("<Q2I", 0, 0, 0) + attributes(node)
        elif operation == OPEN:
            body = struct.pack("<Q2I", 1, 0, 0)
        elif operation == READ:
            body = b"\0" * struct.unpack_from("<QQI", request, 40)[2]
        elif operation == WRITE:
            body = struct.pack("<2I", struct.unpack_from("<QQI", request, 40)[2], 0)
        elif operation in FORGETS:
            continue
        elif operation not in (FLUSH, FSYNC, 18, 29):
            error = -38
        os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)


def stall(unanswered, use):
    """The job of a process that has a file of such a server open, and does `use` with it when requests of the kind `unanswered` have no
    answer any more."""

    def hang(operation):
        if operation == unanswered and os.path.exists("broken"):
            threading.Event().wait()

    if role() == "serve":
        serve(0, hang)
    if role() == "use":
        os.stat("share/data")
        file = os.open("share/data", os.O_RDWR)
        blame(pid=os.getpid())
        time.sleep(1)
        open("broken", "w").close()
        ready()
        use(file)
    private_mounts()
    device = mount("share")
    start("serve", stdin=device)
    os.close(device)
    user = start("use")
    blame(pid=user.pid)
    while user.poll() is None:
        time.sleep(0.2)
