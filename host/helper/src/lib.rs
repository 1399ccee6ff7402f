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
