//! What becomes of the task when this process crashes: nothing.
//!
//! Out of memory, on a bug of ours or of a library, the process is not ended but starts its own program anew, by exec: the
//! PID, the children and the blocked and pending signals stay, all threads and all memory go. What is started so is a
//! stand-in ([`crate::stand_in()`]), which does nothing but supervise. Signals of a fault that somebody else has sent are
//! handed to the watching thread, like every other signal.
#![expect(
    unsafe_code,
    reason = "handlers of signals by number, and an exec in one of them, have no safe wrapper"
)]

use std::ffi::{CString, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use nix::errno::Errno;
use nix::libc::{self, c_char, c_int, c_void, siginfo_t};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::kernel;

/// What ends a process that has a fault, an abort, and SIGPIPE, which Rust's runtime ignores.
const CAUGHT: [c_int; 8] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
    libc::SIGPIPE,
];

/// Where signals that somebody sent are handed on.
static RELAY: AtomicI32 = AtomicI32::new(-1);
/// Our own program, held open: it may be replaced, and `/proc` be gone.
static PROGRAM: AtomicI32 = AtomicI32::new(-1);
/// The words that start the stand-in, as exec takes them; never freed.
static WORDS: AtomicPtr<*const c_char> = AtomicPtr::new(ptr::null_mut());
/// The last of them: two digits and a zero, the signal.
static SIGNAL_WORD: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// From now on a crash starts our program with `words`, the PID of the task and the number of the signal. Returns where
/// signals of a fault arrive that somebody else has sent, one byte each.
pub(crate) fn prepare(words: Vec<OsString>, task: i32) -> Option<OwnedFd> {
    if words.is_empty() {
        return None;
    }
    let (arrival, relay) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
        .inspect_err(
            |error| tracing::warn!(%error, "A crash of taskscope would leave the task alone."),
        )
        .ok()?;
    RELAY.store(relay.into_raw_fd(), Ordering::Relaxed);
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    if let Ok(program) = openat(CWD, "/proc/self/exe", flags, Mode::empty()) {
        PROGRAM.store(program.into_raw_fd(), Ordering::Relaxed);
    }
    set_words(words, task);
    for signal in CAUGHT {
        catch(signal);
    }
    Some(arrival)
}

fn set_words(words: Vec<OsString>, task: i32) {
    let task = OsString::from(task.to_string());
    let words = words.into_iter().chain([task]);
    // A word with a zero in it cannot have come from a command line.
    let words = words.filter_map(|word| CString::new(word.into_vec()).ok());
    let signal = CString::new("00").expect("it holds no zero").into_raw();
    let words = words
        .map(CString::into_raw)
        .chain([signal, ptr::null_mut()]);
    let words: Vec<*const c_char> = words.map(<*mut c_char>::cast_const).collect();
    SIGNAL_WORD.store(signal.cast(), Ordering::Relaxed);
    WORDS.store(words.leak().as_mut_ptr(), Ordering::Release);
}

fn catch(signal: c_int) {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_signal;
    // SAFETY: all zeros are a valid action, whose mask is empty. The handler makes system calls alone, keeps errno, and runs on
    // the stack that Rust's runtime has given each thread for signals. wasmtime asks the handler that it replaces about
    // faults that are not its own.
    unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigaction(signal, action, ptr::null_mut());
    }
}

extern "C" fn on_signal(signal: c_int, details: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes valid details. With a code of 0 or less a process has sent the signal, and the sender is set.
    let sender = unsafe { ((*details).si_code <= 0).then(|| (*details).si_pid()) };
    // SAFETY: the call touches no memory.
    let us = unsafe { libc::getpid() };
    if sender.is_some_and(|sender| sender != us) {
        let errno = Errno::last_raw();
        let byte = u8::try_from(signal).unwrap_or(0);
        // SAFETY: one byte is read from the stack. A pipe that is full has thousands of signals waiting.
        unsafe { libc::write(RELAY.load(Ordering::Relaxed), (&raw const byte).cast(), 1) };
        Errno::set_raw(errno);
    } else if signal != libc::SIGPIPE {
        become_the_stand_in(signal);
    }
}

/// Returns where that cannot be: then the signal ends us, as it would have.
fn become_the_stand_in(signal: c_int) {
    let words = WORDS.load(Ordering::Acquire);
    let digits = SIGNAL_WORD.load(Ordering::Relaxed);
    if !words.is_null() {
        let tens = u8::try_from(signal / 10).unwrap_or(0);
        let ones = u8::try_from(signal % 10).unwrap_or(0);
        // SAFETY: the words are a list that ends with a null, each a string that ends with a zero, and are never freed; the
        // last has room for two digits. `environ` is the environment that we were started with: nothing here changes it.
        unsafe {
            digits.write(b'0' + tens);
            digits.add(1).write(b'0' + ones);
            let program = PROGRAM.load(Ordering::Relaxed);
            let here = c"".as_ptr();
            libc::syscall(
                libc::SYS_execveat,
                program,
                here,
                words,
                environ,
                libc::AT_EMPTY_PATH,
            );
        }
    }
    kernel::set_default(signal);
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Reads the signals that have come by the relay.
pub(crate) fn relayed(arrival: &OwnedFd) -> Vec<i32> {
    let mut bytes = [0_u8; 64];
    let count = rustix::io::read(arrival, &mut bytes).unwrap_or(0);
    bytes[..count].iter().copied().map(i32::from).collect()
}
