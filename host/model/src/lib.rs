//! What was seen: plain data that serialises to the stored form, and no input or output.
//!
//! A stored snapshot is a superset of schema 1.0. Fields of stored structs are declared in alphabetical
//! order, because the stored form has sorted keys and serde writes fields in the order of declaration
//! (a test in `snapshot.rs` keeps it so). New fields are optional; a reader ignores what it does not know.

mod annotation;
mod cgroup;
mod credentials;
mod ending;
mod finding;
mod gap;
mod gpu;
mod ipc;
mod machine;
mod mount;
mod namespaces;
mod natural_order;
mod obituary;
mod plugin_outcome;
mod pressure;
mod process;
mod process_id;
mod sample;
mod scheduling;
mod snapshot;
mod spending;
mod stack_table;
mod step;
mod system_call;
mod task;
mod timestamp;
mod trace;
mod words;

pub use annotation::{Annotation, Target, Value};
pub use cgroup::{
    CgroupCpu, CgroupIo, CgroupLevel, CgroupLimits, CgroupMemory, CgroupPids, CpuLimit, Limit,
    MemoryLimit, OtherCgroup, PidsLimit,
};
pub use credentials::{Credentials, SeccompMode};
pub use ending::{Ending, signal_name};
pub use finding::{Evidence, Finding, Severity};
pub use gap::{Gap, GapCode};
pub use gpu::{Gpu, GpuProcess, GpuProcessKind, GpuTrouble};
pub use ipc::{
    Endpoint, EndpointKind, Eventfd, FileLock, Futex, FutexOwnerSource, Ipc, LockWaiter, Owner,
    PipeEnd, PipeFacts, SharedFile, SharedMapping, SocketFacts, SysvKind, SysvObject, TcpFacts,
    UnixFacts,
};
pub use machine::{Cgroup, Filesystem, MachineFacts, SharedMemory};
pub use mount::{Mount, MountPurpose};
pub use namespaces::NamespaceSet;
pub use natural_order::natural_order;
pub use obituary::{
    BetweenLooks, Circumstance, Holder, LastCpu, LastMemory, Obituary, ObituarySegment, Unseen,
};
pub use plugin_outcome::{OutcomeKind, PluginOutcome, SinkTally};
pub use pressure::{Pressure, Stall};
pub use process::{
    CutText, EnvironmentSource, FileDescriptor, MemoryFacts, ProcFacts, Process, Redaction,
    StackSourceName, Stacks, Thread,
};
pub use process_id::{ParseProcessIdError, ProcessId};
pub use sample::{CgroupSample, GpuSample, MachineSample, ProcessSample, Sample};
pub use scheduling::{Scheduling, SchedulingPolicy};
pub use snapshot::{Capture, SCHEMA_VERSION, ScopeFacts, ScopeKind, Snapshot, SnapshotId, Trigger};
pub use spending::{Detail, Spending};
pub use stack_table::{FrameEntry, StackTable};
pub use step::Step;
pub use system_call::{CallTimeout, SystemCall};
pub use task::{ParseTaskPathError, Task, TaskPath};
pub use timestamp::Timestamp;
pub use trace::{Frame, LocalVariable, SharedFrame, Trace};
pub use words::{code_words, scheduling_words, size_words, span_words, state_words};
