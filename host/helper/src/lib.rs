//! Processes of ours beside the task: helpers that read stacks, memory and GPUs, external readers, compilers of plugins.
//!
//! Each is known by its PID from before it runs until it has ended, so that it is never taken for one of the task's,
//! and each can be ended within a bounded time, whatever it hangs in.

mod poll;
mod process;
mod register;

pub use poll::wait_for_any;
pub use process::{OwnProcess, State, end_all};
pub use register::{Held, Register};

/// The name under which processes of ours are started, the first word of their command line: what `ps` shows must say
/// whose they are, which `/proc/self/exe` does not.
pub const SHOWN_AS: &str = "taskscope";
