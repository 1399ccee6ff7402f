//! A place where system calls are forbidden, as in a container, or memory to all but ancestors, as under Yama.

/// The beginning and the end of a Python program that puts a filter of system calls over itself and becomes what it is told.
macro_rules! becomes {
    ($rules:literal) => {
        concat!(
            r"
import ctypes, os, struct, sys
X86 = os.uname().machine == 'x86_64'
def word(code, yes, no, value): return struct.pack('HBBI', code, yes, no, value)
ALLOWED = word(0x06, 0, 0, 0x7fff0000)
def refused(error): return word(0x06, 0, 0, 0x00050000 | error)
program = word(0x20, 0, 0, 0)
",
            $rules,
            r"
program += ALLOWED
kept = ctypes.create_string_buffer(program)
class Program(ctypes.Structure):
    _fields_ = [('length', ctypes.c_ushort), ('words', ctypes.c_void_p)]
program = Program(len(program) // 8, ctypes.addressof(kept))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"
        )
    };
}

/// A Python program that forbids `process_vm_readv` and `pidfd_getfd` to itself with EPERM, as a container's filter does, and becomes what it is told.
pub const FILTERED: &str = becomes!(
    r"
for call in (310 if X86 else 270, 438):
    program += word(0x15, 0, 1, call) + refused(1)
"
);

/// A Python program that forbids to itself to read or open the memory of any process, and becomes what it is told: under
/// Yama it is so for who is no ancestor. A filter sees no names: what is forbidden is to open with `O_NOFOLLOW`, which
/// taskscope does with `/proc/PID/mem` alone.
pub const NO_ANCESTOR: &str = becomes!(
    r"
program += word(0x15, 0, 1, 310 if X86 else 270) + refused(1)
program += word(0x15, 1, 0, 257 if X86 else 56) + ALLOWED
program += word(0x20, 0, 0, 32) + word(0x45, 0, 1, 0x20000 if X86 else 0x8000) + refused(13)
"
);
