//! What was seen: plain data that serialises to the stored form, and no input or output.
//!
//! A stored snapshot is a superset of schema 1.0. Fields of stored structs are declared in alphabetical
//! order, because the stored form has sorted keys and serde writes fields in the order of declaration
//! (a test in `snapshot.rs` keeps it so). New fields are optional; a reader ignores what it does not know.

mod annotation;
mod finding;
mod gap;
mod ipc;
mod machine;
mod plugin_outcome;
mod process;
mod process_id;
mod snapshot;
mod stack_table;
mod task;
mod timestamp;
mod trace;

pub use annotation::{Annotation, Target, Value};
pub use finding::{Evidence, Finding, Severity};
pub use gap::{Gap, GapCode};
pub use ipc::{Endpoint, Ipc, Owner};
pub use machine::{Cgroup, Filesystem, MachineFacts, SharedMemory};
pub use plugin_outcome::{OutcomeKind, PluginOutcome};
pub use process::{
    FileDescriptor, MemoryFacts, ProcFacts, Process, Redaction, StackSourceName, Stacks, Thread,
};
pub use process_id::{ParseProcessIdError, ProcessId};
pub use snapshot::{Capture, SCHEMA_VERSION, ScopeFacts, ScopeKind, Snapshot, SnapshotId, Trigger};
pub use stack_table::{FrameEntry, StackTable};
pub use task::{ParseTaskPathError, Task, TaskPath};
pub use timestamp::Timestamp;
pub use trace::{Frame, LocalVariable, Trace};
