//! Helper processes: our own program again, started with a hidden command, which does what can hang.
//!
//! A thread that hangs in the kernel stays with its process to the end; a process can be killed, and one that does not
//! die of that can be left behind. Collector and helper talk through a socket and a pipe, in frames, with a deadline for
//! each (`link`, `pipe`, `frame`; `passing` for the open files that a helper is handed); the crate `helper` starts and
//! ends them and knows their PIDs; `service` is the inside of one.
//! What is said in the frames belongs to each kind of helper: `stacks` has one, `memory` the other.

pub(crate) mod frame;
pub(crate) mod link;
pub(crate) mod passing;
pub(crate) mod pipe;
pub(crate) mod service;

use std::ffi::OsString;
use std::path::PathBuf;

/// What starts a helper: our own binary, and the hidden command that makes it one.
#[derive(Clone, Debug)]
pub struct HelperProgram {
    /// The program.
    pub program: PathBuf,
    /// What makes it a helper.
    pub arguments: Vec<OsString>,
}
