//! How Python stacks are to be read; the settings of `[capture.stacks]`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How Python stacks are read.
#[derive(Clone, Debug)]
pub struct StackSettings {
    /// Who reads them.
    pub source: StackSource,
    /// How long one process may take.
    pub timeout: Duration,
    /// Whether the process keeps running while its stacks are read.
    pub nonblocking: bool,
    /// How many processes are read at a time.
    pub max_parallel: usize,
}

/// Who reads Python stacks.
#[derive(Clone, Debug)]
pub enum StackSource {
    /// Nobody.
    Off,
    /// The py-spy library, in helper processes.
    Embedded {
        /// The program to start as a helper: our own binary.
        helper: PathBuf,
        /// What makes it one, such as the hidden command.
        arguments: Vec<OsString>,
    },
    /// An external py-spy program.
    Executable {
        /// The one to use, where it exists.
        program: Option<PathBuf>,
        /// Directories to look in, after the one of the interpreter that is watched.
        path: Vec<PathBuf>,
    },
    /// A directory with a `PID.json` for each process, for tests.
    Recorded(PathBuf),
}
