//! Why there is nothing to look at, and the one place where an `io::Error` becomes a gap's code.

use std::io;
use std::path::PathBuf;

use model::{GapCode, ProcessId};
use rustix::io::Errno;

/// Why a process could not be named, or a task has nothing left to look at.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// There is no process with this PID.
    #[error("there is no process {pid} below {}", proc.display())]
    NoProcess {
        /// The PID that was asked for.
        pid: i32,
        /// The proc root that was looked at.
        proc: PathBuf,
    },
    /// There is something with this PID, but nothing that could be watched.
    #[error("{pid} is {reason}")]
    Unwatchable {
        /// The PID that was asked for.
        pid: i32,
        /// What it is, and what to do.
        reason: String,
    },
    /// The process could not be looked at.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file that was read.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// A recording could not be written.
    #[error("cannot write into {}", path.display())]
    Unwritable {
        /// The directory of the recording.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// The main process ended and no other process of the task is left.
    #[error("nothing is left of the task: its main process {root} and all it started have ended")]
    NothingLeft {
        /// The main process of the task.
        root: ProcessId,
    },
}

/// Returns the code of the gap that `error` leaves.
pub(crate) fn gap_code(error: &io::Error) -> GapCode {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        // ENODEV: a cgroup that was removed after its file was opened.
        Some(Errno::NOENT | Errno::SRCH | Errno::NODEV) => GapCode::Vanished,
        Some(Errno::ACCESS | Errno::PERM) => GapCode::Denied,
        // EOPNOTSUPP: /proc/pressure where the kernel was started with psi=0.
        Some(Errno::NOSYS | Errno::OPNOTSUPP) => GapCode::Unsupported,
        Some(_) => GapCode::Failed,
        None => match error.kind() {
            io::ErrorKind::InvalidData => GapCode::Malformed,
            io::ErrorKind::FileTooLarge => GapCode::Truncated,
            _ => GapCode::Failed,
        },
    }
}

/// Returns the error of a file that was read but did not parse.
pub(crate) fn malformed() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(errno: Errno) -> GapCode {
        gap_code(&io::Error::from_raw_os_error(errno.raw_os_error()))
    }

    #[test]
    fn a_gone_process_and_a_refusal_are_told_apart() {
        assert_eq!(code(Errno::NOENT), GapCode::Vanished);
        assert_eq!(code(Errno::SRCH), GapCode::Vanished);
        assert_eq!(code(Errno::ACCESS), GapCode::Denied);
        assert_eq!(code(Errno::PERM), GapCode::Denied);
    }

    #[test]
    fn what_nobody_expects_is_failed_and_not_vanished() {
        assert_eq!(code(Errno::IO), GapCode::Failed);
        assert_eq!(code(Errno::MFILE), GapCode::Failed);
        assert_eq!(gap_code(&malformed()), GapCode::Malformed);
    }
}
