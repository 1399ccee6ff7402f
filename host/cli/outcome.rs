//! How a command ended; one variant an exit code.

use std::process::ExitCode;

use supervise::Ending;

/// How a command ended. Errors that kept it from beginning are `anyhow::Error` with a [`Refusal`] in the chain where
/// the code differs from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// 0: all went well.
    Well,
    /// 2: the command line or the settings are wrong.
    Usage,
    /// 3: finished, but something was not kept or not read as asked.
    Setbacks,
    /// The task's own status, passed through.
    Task(Ending),
}

impl Outcome {
    /// Ends as this outcome says; returns a code, unless the task died of a signal, which then kills us as well.
    pub(crate) fn code(self) -> ExitCode {
        match self {
            Self::Well => ExitCode::SUCCESS,
            Self::Usage => ExitCode::from(2),
            Self::Setbacks => ExitCode::from(3),
            Self::Task(ending) => supervise::end_like(ending),
        }
    }
}

/// Why a command did not begin, where that decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Bad usage or settings: 125 in `run`, 2 elsewhere.
    Settings,
    /// The command of `run` was not found: 127.
    NotFound,
    /// The command of `run` cannot be executed: 126.
    NotExecutable,
}

impl Refusal {
    /// Returns the exit code; `wraps_a_task` in `run`.
    pub(crate) fn code(self, wraps_a_task: bool) -> ExitCode {
        ExitCode::from(match (self, wraps_a_task) {
            (Self::Settings, true) => 125,
            (Self::Settings, false) => 2,
            (Self::NotFound, _) => 127,
            (Self::NotExecutable, _) => 126,
        })
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Settings => "the settings cannot be used",
            Self::NotFound => "the command was not found",
            Self::NotExecutable => "the command cannot be executed",
        })
    }
}
