//! A place where system calls are forbidden, as in a container.

/// A Python program that forbids `process_vm_readv` and `pidfd_getfd` to itself with EPERM, as a container's filter does, and becomes what it is told.
pub const FILTERED: &str = r"
import ctypes, os, struct, sys
def word(code, yes, no, value): return struct.pack('HBBI', code, yes, no, value)
program = word(0x20, 0, 0, 0)
for call in (310 if os.uname().machine == 'x86_64' else 270, 438):
    program += word(0x15, 0, 1, call) + word(0x06, 0, 0, 0x00050001)
program += word(0x06, 0, 0, 0x7fff0000)
kept = ctypes.create_string_buffer(program)
class Program(ctypes.Structure):
    _fields_ = [('length', ctypes.c_ushort), ('words', ctypes.c_void_p)]
program = Program(len(program) // 8, ctypes.addressof(kept))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
";
