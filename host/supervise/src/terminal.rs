//! The terminal, where the task has a process group of its own: whoever is in the foreground lends it to the task.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::Pid;
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal that controls our session.
#[derive(Debug)]
pub(crate) struct Terminal(OwnedFd);

impl Terminal {
    /// Nothing where there is none.
    pub(crate) fn of_session() -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
        openat(CWD, "/dev/tty", flags, Mode::empty()).ok().map(Self)
    }

    /// The same terminal once more, for a child.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Makes the process group `to` the foreground, if `from` is. SIGTTOU must be blocked, as it is wherever the task is
    /// watched. Makes only plain system calls, for it runs between fork and exec too.
    pub(crate) fn pass(&self, from: i32, to: i32) {
        let foreground = tcgetpgrp(&self.0).map(Pid::as_raw_pid);
        if let (true, Some(to)) = (foreground == Ok(from), Pid::from_raw(to)) {
            // A terminal that was hung up has no foreground any more.
            let _ = tcsetpgrp(&self.0, to);
        }
    }
}
