//! Waiting for children: the task's main process, its orphans, and helpers of our own.

use std::fs;

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};

use crate::{Ending, kernel};

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
    match change(&status(pid, options)?) {
        Change::Ended(ending) => Some(ending),
        Change::Stopped(_) => None,
    }
}

/// Returns the next change of any child, without waiting for one; it stays until it is taken.
pub(crate) fn next_change() -> Option<(i32, Change)> {
    let options = WaitIdOptions::EXITED
        | WaitIdOptions::STOPPED
        | WaitIdOptions::NOHANG
        | WaitIdOptions::NOWAIT;
    loop {
        let pid = kernel::changed_child()?;
        // A helper of ours may have been waited for in between.
        if let Some(status) = status(pid, options) {
            return Some((pid, change(&status)));
        }
    }
}

/// Takes a change of the child `pid`: one that has ended is reaped. Somebody else may have waited for it.
pub(crate) fn take(pid: i32) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    _ = status(pid, options);
}

/// Returns the children of ours; none without `/proc`.
pub(crate) fn children() -> Vec<i32> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten();
    let lists = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    let pids = lists.iter().flat_map(|list| list.split_whitespace());
    pids.filter_map(|pid| pid.parse().ok()).collect()
}

fn status(pid: i32, options: WaitIdOptions) -> Option<WaitIdStatus> {
    let pid = Some(pid).filter(|&pid| pid > 0).and_then(Pid::from_raw)?;
    waitid(WaitId::Pid(pid), options).ok().flatten()
}

fn change(status: &WaitIdStatus) -> Change {
    if let Some(signal) = status.stopping_signal() {
        return Change::Stopped(signal);
    }
    Change::Ended(match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, Some(signal)) => Ending::Killed {
            signal,
            core_dumped: status.dumped(),
        },
        (None, None) => Ending::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::{Duration, Instant};

    /// Waits for a change of a shell that runs `script`, of which there is one.
    fn of(script: &str) -> Change {
        // In a group of its own: SIGTSTP stops nobody in a group whose parents are all in it or of another session.
        let mut shell = Command::new("/bin/sh");
        let child = shell.args(["-c", script]).process_group(0).spawn();
        let pid = child.unwrap().id().try_into().unwrap();
        let deadline = Instant::now() + Duration::from_mins(1);
        let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        let found = loop {
            if let Some(status) = status(pid, options | WaitIdOptions::NOHANG) {
                break change(&status);
            }
            assert!(Instant::now() < deadline, "{script}");
            std::thread::sleep(Duration::from_millis(2));
        };
        assert_eq!(
            ended(pid),
            match found {
                Change::Ended(ending) => Some(ending),
                Change::Stopped(_) => None,
            }
        );
        if found == Change::Stopped(20) {
            kernel::send(pid, 9);
        }
        while children().contains(&pid) && Instant::now() < deadline {
            take(pid);
        }
        found
    }

    #[test]
    fn every_kind_of_change_is_told_apart_and_stays_until_it_is_taken() {
        assert_eq!(of("exit 3"), Change::Ended(Ending::Exited(3)));
        let killed = |signal| {
            Change::Ended(Ending::Killed {
                signal,
                core_dumped: false,
            })
        };
        assert_eq!(of("kill -15 $$; sleep 100"), killed(15));
        assert_eq!(of("kill -40 $$; sleep 100"), killed(40));
        assert_eq!(of("kill -20 $$; exit 0"), Change::Stopped(20));
    }
}
