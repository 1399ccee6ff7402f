//! Watching a process that somebody else started: its end, the ends of our own helpers, and signals that ask us to stop.

use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::event::report;
use crate::inherited::Inherited;
use crate::reap::{next_change, take};
use crate::{Ending, Event, kernel, signals};

/// Why a process cannot be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// There is none with this PID, or it is the id of a thread.
    #[error("there is no process {pid}")]
    NotFound {
        /// The PID that was asked for.
        pid: i32,
    },
    /// The kernel has no pidfds (they came with Linux 5.3) or is out of descriptors or threads.
    #[error("cannot watch process {pid}: {reason}")]
    Failed {
        /// The PID that was asked for.
        pid: i32,
        /// The kernel's words.
        reason: &'static str,
    },
}

/// Watches a process on a thread of its own, until we end; without one, only for signals to us. SIGTERM, SIGINT and SIGHUP to us
/// are reported and no longer end us, unless we were started with them ignored; nothing is ever forwarded. How the process ended
/// cannot be known.
///
/// As for `start`, no other thread may exist yet, and every child of ours is reaped here.
pub fn watch_process(
    pid: Option<i32>,
    on_event: impl Fn(Event) + Send + 'static,
) -> Result<(), WatchError> {
    let failed = |errno: Errno| WatchError::Failed {
        pid: pid.unwrap_or_default(),
        reason: errno.desc(),
    };
    let process = pid.map(hold).transpose()?;
    let reported = reported_signals();
    Inherited::take_over(&reported).map_err(failed)?;
    let signals = signals::source(&reported).map_err(failed)?;
    let builder = thread::Builder::new().name("supervise".to_owned());
    let thread = builder.spawn(move || run(process.as_ref(), &signals, &on_event));
    thread.map(drop).map_err(|error| {
        failed(Errno::from_raw(
            error.raw_os_error().unwrap_or(libc::EAGAIN),
        ))
    })
}

fn hold(pid: i32) -> Result<OwnedFd, WatchError> {
    let process = Some(pid)
        .filter(|pid| *pid > 0)
        .and_then(Pid::from_raw)
        .ok_or(WatchError::NotFound { pid })?;
    pidfd_open(process, PidfdFlags::empty()).map_err(|error| {
        match Errno::from_raw(error.raw_os_error()) {
            Errno::ESRCH | Errno::EINVAL => WatchError::NotFound { pid },
            errno => WatchError::Failed {
                pid,
                reason: errno.desc(),
            },
        }
    })
}

/// SIGCHLD and what asks us to end. Blocked, an ignored signal would wake us, and nohup be in vain.
fn reported_signals() -> SigSet {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        if !kernel::is_ignored(signal as i32) {
            signals.add(signal);
        }
    }
    signals
}

fn run(process: Option<&OwnedFd>, signals: &SignalFd, on_event: &impl Fn(Event)) {
    let mut living = process;
    loop {
        while let Some((helper, _)) = next_change() {
            take(helper);
        }
        let mut ready = vec![PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
        if let Some(process) = living {
            ready.push(PollFd::new(process, PollFlags::IN));
        }
        if poll(&mut ready, None).is_err() {
            continue; // interrupted
        }
        let has_come = |index: usize| {
            ready
                .get(index)
                .is_some_and(|descriptor| !descriptor.revents().is_empty())
        };
        if has_come(1) {
            living = None;
            report(on_event, Event::Ended(Ending::Unknown));
        }
        if has_come(0) {
            while let Some(signal) = signals::next(signals) {
                let number = signals::number(&signal);
                if number != libc::SIGCHLD {
                    report(on_event, Event::Signal(number));
                }
            }
        }
    }
}
