//! The machine to a `Snapshot`: discovers the processes of the task and looks at each once.
//!
//! The only crate that reads a foreign process. It never writes to one, never stops one, never prints, and never
//! asks for the time of day or the environment. What cannot be read becomes a gap in the snapshot, not an error.

mod machine;
mod stack_settings;

mod discover;
mod family;
mod scope;

mod capture;
mod image;
mod process;
mod python;

mod proc;

mod environment;
mod redact;
mod secret_name;

mod cgroup;
mod filesystem;
mod hierarchy;
mod ipc;
mod machine_facts;

mod stacks;

mod error;
mod gaps;

#[cfg(test)]
mod tests;

pub use capture::{Moment, Options, capture};
pub use discover::{Targets, discover};
pub use error::CaptureError;
pub use machine::Machine;
pub use scope::Scope;
pub use stack_settings::{StackSettings, StackSource};
pub use stacks::stack_helper;
