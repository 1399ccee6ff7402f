//! The machine to a `Snapshot`: discovers the processes of the task and looks at each once.
//!
//! The only crate that reads a foreign process. It never writes to one, never stops one, never prints, and never
//! asks for the time of day or the environment. What cannot be read becomes a gap in the snapshot, not an error.

mod machine;
mod stack_settings;

mod discover;
mod disposition;
mod family;
mod newcomers;
mod scope;

mod allocator;
mod call;
mod capture;
mod command_line;
mod cost;
mod elf;
mod execs;
mod holdings;
mod image;
mod process;
mod process_facts;
mod pulse;
mod python;
mod reaping;
mod recall;
mod remains;
mod sample;
mod sight;
mod turns;

mod proc;

mod environment;
mod redact;
mod secret_name;

mod cgroup;
mod filesystem;
mod gpu;
mod hierarchy;
mod ipc;
mod machine_facts;

mod frames;
mod helper;
mod memory;
mod stacks;

mod record;
mod rights;

mod error;
mod gaps;
mod left_out;

#[cfg(feature = "fuzzing")]
pub mod fuzzing;

#[cfg(test)]
mod tests;

pub use allocator::{Starts, share_one_heap};
pub use capture::{Moment, Options, capture};
pub use cgroup::memory::{MemoryCgroup, MemoryRoom, machine_room};
pub use cost::Meter;
pub use discover::{Found, Targets, discover};
pub use disposition::Disposition;
pub use error::CaptureError;
pub use gpu::{GpuSettings, gpu_helper};
pub use helper::HelperProgram;
pub use holdings::{Holdings, holdings};
pub use machine::Machine;
pub use memory::memory_helper;
pub use record::record;
pub use remains::{Remains, is_there, remains};
pub use rights::{
    OwnRights, ProcessRights, Remedy, Right, RightName, RightState, Rights, try_gpus, try_rights,
};
pub use sample::{SampleMoment, Sampler, sample};
pub use scope::Scope;
pub use stack_settings::{StackSettings, StackSource};
pub use stacks::stack_helper;
