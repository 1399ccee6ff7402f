//! What could not be read, and why.

use serde::{Deserialize, Serialize};

use crate::ProcessId;

/// Why something could not be read. Serialises in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapCode {
    /// The process, thread or file was gone when it was read (ENOENT, ESRCH), or is a zombie whose memory is gone.
    Vanished,
    /// The kernel refused (EACCES, EPERM).
    Denied,
    /// The PID named another process after the read than before; what was read was thrown away.
    Reused,
    /// This kernel, interpreter or configuration does not offer it.
    Unsupported,
    /// A read did not answer before its deadline; the helper that was in it was ended, or abandoned where it cannot be.
    /// The process is left alone while one hangs in it, else for some captures or until its state changes.
    BlockedRead,
    /// A Python stack was not ready before its deadline.
    TimedOut,
    /// There is more than the limit; what fits was kept.
    Truncated,
    /// It was read but did not parse.
    Malformed,
    /// The interpreter's memory changed while it was read, several times in a row.
    Torn,
    /// The thing is switched off in the settings.
    Off,
    /// No program or helper that could read it was found.
    NoReader,
    /// The collector did not get to it: cycles missed, or detail dropped to stay within the budget.
    Skipped,
    /// Any other failure; `detail` has the words of the system.
    Failed,
}

/// One thing that could not be read; part of the snapshot. Several alike in one process are one gap with a `count`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Why.
    pub code: GapCode,
    /// How many alike this stands for, such as the threads of the process whose kernel stack was denied.
    pub count: u32,
    /// The system's own words, where they say more than the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The process it belongs to; absent for the machine, the cgroup and the collector itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessId>,
    /// What to do so that it can be read next time, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The right that is lacking, by the name that `taskscope doctor` gives it, such as `kernel_stacks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right: Option<Box<str>>,
    /// What is missing: a file below `/proc/PID` such as `environ`, `fd` or `task/*/stack`; `python_stack`;
    /// `cgroup/memory.max`; `gpus`; `cycles`.
    pub what: String,
}

impl Gap {
    /// Returns one gap without detail, process or remedy.
    pub fn new(what: impl Into<String>, code: GapCode) -> Self {
        Self {
            code,
            count: 1,
            detail: None,
            process: None,
            remedy: None,
            right: None,
            what: what.into(),
        }
    }

    /// Returns this gap as one of `process`.
    #[must_use]
    pub fn of(mut self, process: ProcessId) -> Self {
        self.process = Some(process);
        self
    }

    /// Returns this gap with the system's own words.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Returns this gap with what to do about it.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
