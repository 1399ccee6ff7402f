"""Makes process PID receive signal N as a fault of its own: ptrace rewrites who sent it. Arguments: PID N."""
import ctypes
import os
import sys

pid, number = int(sys.argv[1]), int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
SEIZE, INTERRUPT, CONT, DETACH, SETSIGINFO = 0x4206, 0x4207, 7, 17, 0x4203


def ptrace(request, address=None, data=None):
    if libc.ptrace(request, pid, address, data) != 0:
        error = ctypes.get_errno()
        sys.exit("ptrace %d: %s" % (request, os.strerror(error)))


ptrace(SEIZE)
os.kill(pid, number)
while True:
    _, status = os.waitpid(pid, 0x40000000)
    if os.WIFSTOPPED(status) and os.WSTOPSIG(status) == number and status >> 16 == 0:
        break
    ptrace(CONT, None, os.WSTOPSIG(status) if status >> 16 == 0 else 0)
# siginfo_t: number, errno, code; the code of a fault is above 0.
details = (ctypes.c_int * 32)()
details[0], details[2] = number, 1
ptrace(SETSIGINFO, None, ctypes.cast(details, ctypes.c_void_p))
ptrace(DETACH, None, number)
