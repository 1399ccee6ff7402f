//! Waiting for children: the task's main process, its orphans, and helpers of our own.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, wait, waitid};

use crate::Ending;

/// What became of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It has ended, and its PID may be used again.
    Ended(Ending),
    /// It was stopped by this signal.
    Stopped(i32),
}

/// Returns how the child `pid` ended, if it has, and leaves it a zombie: its PID stays taken, and whoever looks at the
/// task still finds it.
pub(crate) fn ended(pid: i32) -> Option<Ending> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(Pid::from_raw(pid)?), options)
        .ok()
        .flatten()?;
    Some(match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, Some(signal)) => Ending::Killed {
            signal,
            core_dumped: status.dumped(),
        },
        (None, None) => Ending::Unknown,
    })
}

/// Takes the next change of any child, without waiting for one.
pub(crate) fn next_change() -> Option<(i32, Change)> {
    // An interruption cannot happen without waiting, and "no child" is no change.
    let (pid, status) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED)
        .ok()
        .flatten()?;
    Some((
        Pid::as_raw(Some(pid)),
        change(ExitStatus::from_raw(status.as_raw())),
    ))
}

/// Reaps every child that has ended, but the one that is to stay a zombie. Without `/proc` none is.
pub(crate) fn reap_all_but(zombie: i32) {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
    for thread in threads.flatten() {
        let children = fs::read_to_string(thread.path().join("children"));
        let children = children.unwrap_or_default();
        let pids = children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok());
        for pid in pids.filter(|pid| *pid != zombie).filter_map(Pid::from_raw) {
            // One that lives on, and one that somebody else has waited for, are no children that have ended.
            let _ = waitid(
                WaitId::Pid(pid),
                WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
            );
        }
    }
}

fn change(status: ExitStatus) -> Change {
    if let Some(signal) = status.stopped_signal() {
        return Change::Stopped(signal);
    }
    Change::Ended(Ending::from_wait_status(status.into_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(raw: i32) -> Change {
        change(ExitStatus::from_raw(raw))
    }

    #[test]
    fn every_kind_of_status_is_told_apart() {
        assert_eq!(of(0x0300), Change::Ended(Ending::Exited(3)));
        assert_eq!(
            of(0x000f),
            Change::Ended(Ending::Killed {
                signal: 15,
                core_dumped: false
            })
        );
        assert_eq!(
            of(0x0086),
            Change::Ended(Ending::Killed {
                signal: 6,
                core_dumped: true
            })
        );
        assert_eq!(
            of(0x0028),
            Change::Ended(Ending::Killed {
                signal: 40,
                core_dumped: false
            })
        );
        assert_eq!(of(0x147f), Change::Stopped(20));
    }
}
