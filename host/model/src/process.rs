//! One process of the task: `processes[]` of a snapshot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{ProcessId, Trace};

/// One process. All names of schema 1.0 stand where they stood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Lines of `/proc/PID/cgroup`, sorted.
    pub cgroup: Vec<String>,
    /// The arguments, redacted; bytes that are not UTF-8 are U+FFFD.
    pub cmdline: Vec<String>,
    /// The arguments joined by spaces.
    pub command: String,
    /// The allow-listed part of its environment at exec time, redacted.
    pub distributed_environment: BTreeMap<String, String>,
    /// The target of `/proc/PID/exe`.
    pub exe: Option<String>,
    /// `PID:START`.
    pub identity: ProcessId,
    /// Whether the `process-pattern` setting matches the command; it never filters.
    pub matches_pattern: bool,
    /// RSS and its parts; absent for zombies, kernel threads and where it was denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryFacts>,
    /// Its PID.
    pub pid: i32,
    /// Its parent's PID.
    pub ppid: i32,
    /// What the kernel says of it.
    pub proc: ProcFacts,
    /// Its Python stacks; absent exactly when a gap `python_stack` says why, or it is not Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pyspy: Option<Stacks>,
    /// Whether the executable, the first argument or a mapped library says that it is a Python interpreter.
    pub python_candidate: bool,
    /// What was replaced in `cmdline` and `distributed_environment`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redactions: Vec<Redaction>,
    /// Field 22 of `/proc/PID/stat`: clock ticks from boot to its start.
    pub start_time_ticks: u64,
    /// Field 3 of `/proc/PID/stat`: one letter.
    pub state: char,
}

/// Something that was replaced by `[redacted]` before anything was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redaction {
    /// The name of the pattern that matched.
    pub pattern: String,
    /// Where: `cmdline/INDEX` or `distributed_environment/NAME`.
    pub place: String,
}

/// Python stacks of a process and where they come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stacks {
    /// Who read them.
    #[serde(default)]
    pub source: StackSourceName,
    /// One entry a Python thread.
    pub traces: Vec<Trace>,
}

/// Who read a Python stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StackSourceName {
    /// The py-spy library in a helper process of ours.
    Embedded,
    /// An external py-spy program; also what snapshots of schema 1.0 mean.
    #[default]
    Executable,
    /// A recorded file, in tests.
    Recorded,
}

/// Memory of a process from `/proc/PID/status`, bytes (the kernel's kB are KiB).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFacts {
    /// `VmHWM`: the largest RSS so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
    /// `RssAnon`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_anon_bytes: Option<u64>,
    /// `VmRSS`; shared pages count in every process that maps them.
    pub rss_bytes: u64,
    /// `RssFile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_file_bytes: Option<u64>,
    /// `RssShmem`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_shmem_bytes: Option<u64>,
    /// `VmSwap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_bytes: Option<u64>,
}

/// The `proc` object of a process. An empty value or null has a gap that says why, unless the kernel's own text is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcFacts {
    /// CPU time in the kernel of waited-for children, clock ticks (`cstime`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cstime_ticks: Option<u64>,
    /// CPU time in user mode of waited-for children, clock ticks (`cutime`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cutime_ticks: Option<u64>,
    /// Open descriptors in numeric order.
    pub file_descriptors: Vec<FileDescriptor>,
    /// `/proc/PID/io`: bytes and calls.
    pub io: BTreeMap<String, String>,
    /// `/proc/PID/stack`: the kernel stack of the main thread.
    pub kernel_stack: Vec<String>,
    /// `/proc/PID/limits`, lines with their padding.
    pub limits: Vec<String>,
    /// `/proc/PID/schedstat` of the main thread, raw: run ns, wait ns, timeslices.
    pub schedstat: Option<String>,
    /// The lines of `/proc/PID/status` that schema 1.0 keeps.
    pub status: BTreeMap<String, String>,
    /// CPU time in the kernel, clock ticks (field 15 of stat).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stime_ticks: Option<u64>,
    /// `/proc/PID/syscall` of the main thread, raw.
    pub syscall: Option<String>,
    /// Every thread, by tid.
    pub threads: Vec<Thread>,
    /// CPU time in user mode, clock ticks (field 14 of stat).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utime_ticks: Option<u64>,
    /// `/proc/PID/wchan` of the main thread.
    pub wchan: Option<String>,
}

/// One thread of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// `comm`, up to 15 bytes.
    pub comm: Option<String>,
    /// `stack`: the kernel stack.
    pub kernel_stack: Vec<String>,
    /// Field 3 of its `stat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<char>,
    /// CPU time in the kernel, clock ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stime_ticks: Option<u64>,
    /// `syscall`, raw: `NR a0 … a5 sp pc`, `-1 sp pc` or `running`.
    pub syscall: Option<String>,
    /// The kernel's thread id.
    pub tid: i32,
    /// CPU time in user mode, clock ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utime_ticks: Option<u64>,
    /// `wchan`: the kernel function it waits in, or "0".
    pub wchan: Option<String>,
}

/// One open descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDescriptor {
    /// Its number, as text (schema 1.0).
    pub fd: String,
    /// `/proc/PID/fdinfo/FD`; of a repeated key, the first line here and the others as `key#2`, `key#3`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub info: Option<BTreeMap<String, String>>,
    /// The link text of `/proc/PID/fd/FD`.
    pub target: String,
}
