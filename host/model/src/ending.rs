//! How a process ended.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a process ended, as `waitpid(2)` tells it. Who sent a signal the kernel does not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It exited with this code.
    Exited(i32),
    /// A signal ended it.
    Killed {
        /// Whether it left a core file.
        core_dumped: bool,
        /// The signal's number.
        signal: i32,
    },
    /// Nobody told: its parent took the status before we could read it, or it was not ours to wait for.
    #[default]
    Unknown,
}

impl Ending {
    /// Returns the ending that the raw status of `waitpid(2)` says: the code in bits 8 to 15, or the signal in the lowest
    /// seven and the core file in the eighth.
    pub fn from_wait_status(status: i32) -> Self {
        match status & 0x7f {
            0 => Self::Exited((status >> 8) & 0xff),
            // Stopped or continued; not an end.
            0x7f => Self::Unknown,
            signal => Self::Killed {
                core_dumped: status & 0x80 != 0,
                signal,
            },
        }
    }

    /// Returns the signal that ended it, where one did.
    pub fn signal(self) -> Option<i32> {
        match self {
            Self::Killed { signal, .. } => Some(signal),
            Self::Exited(_) | Self::Unknown => None,
        }
    }
}

/// In the words of a report: `exited with 3`, `SIGKILL`, `unknown`.
impl fmt::Display for Ending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(formatter, "exited with {code}"),
            Self::Killed { signal, .. } => {
                match NAMES.iter().find(|(number, _)| number == signal) {
                    Some((_, name)) => formatter.write_str(name),
                    None => write!(formatter, "signal {signal}"),
                }
            }
            Self::Unknown => formatter.write_str("nobody knows how"),
        }
    }
}

/// The names of `signal(7)` whose numbers are the same on every processor that we run on (x86 and ARM).
const NAMES: [(i32, &str); 31] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (10, "SIGUSR1"),
    (11, "SIGSEGV"),
    (12, "SIGUSR2"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (16, "SIGSTKFLT"),
    (17, "SIGCHLD"),
    (18, "SIGCONT"),
    (19, "SIGSTOP"),
    (20, "SIGTSTP"),
    (21, "SIGTTIN"),
    (22, "SIGTTOU"),
    (23, "SIGURG"),
    (24, "SIGXCPU"),
    (25, "SIGXFSZ"),
    (26, "SIGVTALRM"),
    (27, "SIGPROF"),
    (28, "SIGWINCH"),
    (29, "SIGIO"),
    (30, "SIGPWR"),
    (31, "SIGSYS"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_wait_status_is_told_apart() {
        let killed = |signal, core_dumped| Ending::Killed {
            core_dumped,
            signal,
        };
        assert_eq!(Ending::from_wait_status(0x0300), Ending::Exited(3));
        assert_eq!(Ending::from_wait_status(0), Ending::Exited(0));
        assert_eq!(Ending::from_wait_status(0x000f), killed(15, false));
        assert_eq!(Ending::from_wait_status(0x0086), killed(6, true));
        assert_eq!(Ending::from_wait_status(0x0028), killed(40, false));
        assert_eq!(Ending::from_wait_status(0x137f), Ending::Unknown);
    }

    #[test]
    fn an_end_has_the_words_that_people_use() {
        let words = |status| Ending::from_wait_status(status).to_string();
        assert_eq!(words(0x0300), "exited with 3");
        assert_eq!(words(9), "SIGKILL");
        assert_eq!(words(40), "signal 40");
        assert_eq!(words(0x137f), "nobody knows how");
    }
}
