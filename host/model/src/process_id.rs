//! The only way to name a process across snapshots: its PID and when it started.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A PID together with the start time of its process, in clock ticks since boot (field 22 of
/// `/proc/PID/stat`, `proc_pid_stat(5)`), because PIDs are reused. Serialises as `"PID:START"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// The process id (thread group id) in the PID namespace of the reader.
    pub pid: i32,
    /// Clock ticks from boot to the start of the process.
    pub start_time_ticks: u64,
}

/// A text that is not `PID:START`.
#[derive(Debug, PartialEq, Eq)]
pub struct ParseProcessIdError(String);

impl fmt::Display for ProcessId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.pid, self.start_time_ticks)
    }
}

impl fmt::Display for ParseProcessIdError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "`{}` is not PID:START, such as 4711:56786",
            self.0
        )
    }
}

impl std::error::Error for ParseProcessIdError {}

impl FromStr for ProcessId {
    type Err = ParseProcessIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseProcessIdError(text.to_owned());
        let (pid, start) = text.split_once(':').ok_or_else(error)?;
        let pid = pid.parse().map_err(|_| error())?;
        let start_time_ticks = start.parse().map_err(|_| error())?;
        Ok(Self {
            pid,
            start_time_ticks,
        })
    }
}

impl Serialize for ProcessId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ProcessId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_round_trips() {
        let id = ProcessId {
            pid: 4711,
            start_time_ticks: 56_786,
        };
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn a_bare_pid_is_refused() {
        let error = "4711".parse::<ProcessId>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`4711` is not PID:START, such as 4711:56786"
        );
    }
}
