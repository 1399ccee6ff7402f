//! The calls that need `unsafe`: signals by number, also those without a name, and code between fork and exec.
#![expect(
    unsafe_code,
    reason = "std and nix offer none of these safely; the rest of the crate's unsafe code is in crash.rs"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

use nix::libc::{self, c_int};

// SAFETY: `.init_array` holds pointers to functions, which the loader calls once before `main`; ours is one, and makes
// four system calls and two stores.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = crate::inherited::remember;

/// Whether this process ignores a signal.
pub(crate) fn is_ignored(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no new action is given, so the call only writes to `action`, which all zeros is a valid value of.
    let action = unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// Gives a signal its default effect.
pub(crate) fn set_default(signal: c_int) {
    // SAFETY: no handler is installed, and the call is allowed between fork and exec.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Ignores a signal.
pub(crate) fn set_ignored(signal: c_int) {
    // SAFETY: no handler is installed, and the call is allowed between fork and exec.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Sends a signal to a process; one that may not be signalled, such as after a setuid exec, does not get it.
pub(crate) fn send(pid: i32, signal: c_int) {
    // SAFETY: the call touches no memory of ours.
    unsafe { libc::kill(pid, signal) };
}

/// Sends a signal to the process that `pidfd` holds, by number, also one without a name.
pub(crate) fn send_to_held(pidfd: BorrowedFd<'_>, signal: c_int) {
    let no_details = ptr::null::<libc::siginfo_t>();
    // SAFETY: the call touches no memory of ours, for no details are given; one that has ended does not get it.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            no_details,
            0,
        )
    };
}

/// Returns a child that has ended or was stopped, and leaves it so.
pub(crate) fn changed_child() -> Option<c_int> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let which = libc::WEXITED | libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the call only writes to `info`, which all zeros is a valid value of; `si_pid` is set, or zero where there is none.
    let pid = unsafe {
        let answer = libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), which);
        (answer == 0).then(|| info.assume_init().si_pid())
    };
    pid.filter(|&pid| pid > 0)
}

/// Whether a descriptor of this number is open.
pub(crate) fn is_open(descriptor: c_int) -> bool {
    // SAFETY: the call reads a flag of the table of descriptors and touches no memory.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) != -1 }
}

/// Closes a standard stream between fork and exec, where nothing of ours uses it any more.
pub(crate) fn close(stream: c_int) {
    // SAFETY: the call is allowed between fork and exec, and no Rust value owns a standard stream.
    unsafe { libc::close(stream) };
}

/// Has a signal of this process do what it does by default: stop it or end it. Returns when it is continued, or at once
/// where the kernel does nothing, as for PID 1. The signal is blocked afterwards.
pub(crate) fn suffer(signal: c_int) {
    set_default(signal);
    let mut only = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set that the others read; the mask is that of this thread, to which `raise`
    // sends the signal, so it is delivered before the first `pthread_sigmask` returns.
    unsafe {
        libc::sigemptyset(only.as_mut_ptr());
        libc::sigaddset(only.as_mut_ptr(), signal);
        libc::raise(signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, only.as_ptr(), ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_BLOCK, only.as_ptr(), ptr::null_mut());
    }
}

/// Runs `prepare` in the child of `command` between fork and exec.
pub(crate) fn before_exec(
    command: &mut Command,
    prepare: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: `prepare` is that of `start`, which makes only async-signal-safe calls and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// `struct pidfd_info` of `linux/pidfd.h` as it was first (64 bytes); a kernel with a longer one fills as much.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    /// What is asked for, and what was answered.
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

/// `PIDFD_INFO_EXIT`: how the process ended. Answered once it has been reaped, since Linux 6.15.
const EXIT: u64 = 1 << 3;

/// `PIDFD_GET_INFO`: `_IOWR(0xFF, 11, struct pidfd_info)`, with the size above.
const GET_INFO: libc::Ioctl = 0xC040_FF0B_u32 as libc::Ioctl;

/// Returns the wait status of a process that has been reaped, where the kernel still knows it: Linux 6.15 and later.
pub(crate) fn exit_status(pidfd: BorrowedFd<'_>) -> Option<c_int> {
    let mut info = PidfdInfo {
        mask: EXIT,
        ..PidfdInfo::default()
    };
    // SAFETY: the descriptor is open, and the kernel writes no more than the 64 bytes that the request names, which `info` has.
    let answer = unsafe { libc::ioctl(pidfd.as_raw_fd(), GET_INFO, &raw mut info) };
    (answer == 0 && info.mask & EXIT != 0).then_some(info.exit_code)
}
