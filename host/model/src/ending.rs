//! How a process ended.

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
}
