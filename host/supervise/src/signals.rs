//! Which signals we take from the kernel ourselves, and which of them the task is to get from us.

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::unistd::{getpid, getsid};

/// Everything that can be sent to a process, real-time signals included: what we did not block would end us and leave
/// the task behind. SIGCHLD is among them, for reaping.
///
/// Left out are the signals of a fault of our own, which must never wait (and which wasmtime handles), and SIGPIPE, which
/// is a write error of ours. Those that somebody else sends come by `crash.rs`.
pub(crate) fn forwarded() -> SigSet {
    let mut signals = SigSet::all();
    let faults = [
        Signal::SIGSEGV,
        Signal::SIGBUS,
        Signal::SIGFPE,
        Signal::SIGILL,
        Signal::SIGTRAP,
        Signal::SIGSYS,
    ];
    for signal in faults.into_iter().chain([Signal::SIGPIPE]) {
        signals.remove(signal);
    }
    signals
}

/// A descriptor that blocked signals are read from.
pub(crate) fn source(signals: &SigSet) -> Result<SignalFd, Errno> {
    SignalFd::with_flags(signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

/// The next signal, if one has come.
pub(crate) fn next(signals: &SignalFd) -> Option<siginfo> {
    loop {
        match signals.read_signal() {
            Ok(signal) => return signal,
            Err(Errno::EINTR) => {}
            Err(error) => unreachable!("a signalfd of ours cannot be read: {error}"),
        }
    }
}

/// The number of a signal as the rest of the world writes it.
pub(crate) fn number(signal: &siginfo) -> i32 {
    i32::try_from(signal.ssi_signo).expect("there are 64 signals")
}

/// Whether the task is to get this signal from us.
pub(crate) fn is_for_task(signal: &siginfo, task: i32) -> bool {
    if signal.ssi_code <= 0 {
        return is_sent_by_other(signal, task);
    }
    is_for_us_alone(
        number(signal),
        getsid(None).is_ok_and(|session| session == getpid()),
    )
}

/// Whether a process sent it, other than the task itself: `kill 0` or `kill $PPID` in there must not come back to it.
/// A sender outside of our PID namespace is 0.
fn is_sent_by_other(signal: &siginfo, task: i32) -> bool {
    let sender = i64::from(signal.ssi_pid);
    sender != i64::from(task) && sender != i64::from(getpid().as_raw())
}

/// Whether the kernel sent it to us alone, where without us it would have been the task's. What the terminal sends goes
/// to the whole foreground group, so the task has it already; of the rest the task has its own (its CPU limit, its files).
fn is_for_us_alone(signal: i32, leads_session: bool) -> bool {
    match signal {
        // A hangup tells the session's leader first, and the others only when that one is gone.
        libc::SIGHUP | libc::SIGCONT => leads_session,
        // An alarm that was set before the exec, as in `perl -e 'alarm 9; exec …'`.
        libc::SIGALRM => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_our_own_are_never_blocked() {
        let signals = forwarded();
        assert!(!signals.contains(Signal::SIGSEGV) && !signals.contains(Signal::SIGPIPE));
        assert!(signals.contains(Signal::SIGTERM) && signals.contains(Signal::SIGCHLD));
    }

    #[test]
    fn ctrl_c_is_not_forwarded_and_a_hangup_is_only_by_the_leader() {
        assert!(!is_for_us_alone(libc::SIGINT, true));
        assert!(!is_for_us_alone(libc::SIGWINCH, true));
        assert!(is_for_us_alone(libc::SIGHUP, true));
        assert!(!is_for_us_alone(libc::SIGHUP, false));
        assert!(is_for_us_alone(libc::SIGALRM, false));
    }
}
