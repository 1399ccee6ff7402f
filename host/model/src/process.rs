//! One process of the task: `processes[]` of a snapshot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Credentials, ProcessId, Scheduling, Step, SystemCall, Timestamp, Trace};

/// One process. All names of schema 1.0 stand where they stood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Lines of `/proc/PID/cgroup`, sorted.
    pub cgroup: Vec<String>,
    /// The arguments, redacted; bytes that are not UTF-8 are U+FFFD.
    pub cmdline: Vec<String>,
    /// That the arguments were cut, and what they were; absent where they are whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmdline_cut: Option<CutText>,
    /// The arguments joined by spaces.
    pub command: String,
    /// The allow-listed part of its environment, redacted: as it was at exec time, except where `environment_source` is `memory`.
    pub distributed_environment: BTreeMap<String, String>,
    /// Where `distributed_environment` comes from; absent where `/proc/PID/environ` was read for this snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_source: Option<EnvironmentSource>,
    /// The target of `/proc/PID/exe`.
    pub exe: Option<String>,
    /// How many times the process was seen to have become another program (`execve(2)`) since this collector first saw it:
    /// 0 at first sight. Told by the target of `/proc/PID/exe` and the bottom of the stack (field 28 of `/proc/PID/stat`). Absent
    /// where the executable was never shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec_generation: Option<u32>,
    /// `PID:START`.
    pub identity: ProcessId,
    /// Whether the `process-pattern` setting matches the command; it never filters.
    pub matches_pattern: bool,
    /// RSS and its parts; absent for zombies, kernel threads and where it was denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryFacts>,
    /// The index of its namespaces in `namespaces[]` of the snapshot; absent where they could not be read, and for zombies and
    /// kernel threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<u32>,
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
    /// Numbers that its Python frames hold, of the variables that the settings name. Read with the stacks, by our own
    /// reader alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// What is said of a text of which only the beginning was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutText {
    /// Its whole length in bytes, as the kernel gave it; where that is longer than we read, a gap `cmdline` says so.
    pub bytes: u64,
    /// FNV-1a, 64 bits, hexadecimal, over all arguments after redaction, each followed by a NUL: equal for equal texts.
    pub hash: String,
}

/// Where the environment of a process was read, if not in this snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentSource {
    /// When the process was first seen running its present program. The kernel's text does not change after exec, unless the
    /// process writes its title over it, or ends.
    FirstSight,
    /// From the memory of the process: when it was first seen running its present program, because it has written its title
    /// over what `/proc/PID/environ` shows, or later, when a Python program had set a `RANK` itself. The list that the C
    /// library's `environ` leads to, with all that the process had set and removed by then.
    Memory,
    /// From the parent, which runs the same image: the process was forked from it after the title was written.
    Parent,
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
    /// They were read for the snapshot that has this `capture.started_at`, and by `schedstat` no thread of the process has run
    /// since. Absent where they were read for this snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchanged_since: Option<Timestamp>,
    /// The version of the interpreter by its own memory (`_PyRuntime`, `Py_Version` or `sys.version`), such as
    /// `3.11.7`. Absent where the memory does not tell, and where another program read the stacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
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
    /// Our own reader of `CPython`'s frames in a helper process of ours.
    Own,
    /// A recorded file, in tests.
    Recorded,
}

/// Memory of a process from `/proc/PID/status`, bytes (the kernel's kB are KiB).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFacts {
    /// `VmData`: private writable mappings, resident or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_bytes: Option<u64>,
    /// `HugetlbPages`: pages of hugetlbfs, which RSS leaves out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hugetlb_bytes: Option<u64>,
    /// `VmLck`: locked by mlock(2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_bytes: Option<u64>,
    /// `VmPTE`: page tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_table_bytes: Option<u64>,
    /// `VmHWM`: the largest RSS so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
    /// `VmPin`: pinned for devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_bytes: Option<u64>,
    /// `Pss` of `smaps_rollup`: RSS in which each page counts by its share of users (since Linux 4.14). Read within a
    /// budget; a gap `smaps_rollup` says why it is absent, unless the setting `shared-memory` is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss_bytes: Option<u64>,
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
    /// `VmStk`: the stack of the main thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_bytes: Option<u64>,
    /// `VmSwap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_bytes: Option<u64>,
    /// `Private_Clean` + `Private_Dirty` + `Private_Hugetlb` of `smaps_rollup`: what is freed when the process ends. Absent as
    /// `pss_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uss_bytes: Option<u64>,
    /// `VmSize`: address space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_bytes: Option<u64>,
}

/// The `proc` object of a process. An empty value or null has a gap that says why, unless the kernel's own text is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcFacts {
    /// `Cpus_allowed_list` of status: CPUs that the main thread may run on, such as `0-3,8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_cpus: Option<String>,
    /// Field 13 of stat: major faults of waited-for children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_major_faults: Option<u64>,
    /// Field 11 of stat: minor faults of waited-for children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_minor_faults: Option<u64>,
    /// `CoreDumping` of status: whether it is writing a core dump (since Linux 4.15).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_dumping: Option<bool>,
    /// Users, groups and restrictions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// CPU time in the kernel of waited-for children, clock ticks (`cstime`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cstime_ticks: Option<u64>,
    /// CPU time in user mode of waited-for children, clock ticks (`cutime`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cutime_ticks: Option<u64>,
    /// Field 52 of stat: of a zombie, the status that it ended with; absent where a signal ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// Field 52 of stat: of a zombie, the signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_signal: Option<u8>,
    /// Open descriptors in numeric order.
    pub file_descriptors: Vec<FileDescriptor>,
    /// Field 8 of stat: the foreground process group of its terminal; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreground_group: Option<i32>,
    /// `/proc/PID/io`: bytes and calls.
    pub io: BTreeMap<String, String>,
    /// `/proc/PID/stack`: the kernel stack of the main thread.
    pub kernel_stack: Vec<String>,
    /// `/proc/PID/limits`, lines with their padding.
    pub limits: Vec<String>,
    /// Field 12 of stat: faults that waited for a disk, of all threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub major_faults: Option<u64>,
    /// Field 10 of stat: faults that waited for no disk, of all threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor_faults: Option<u64>,
    /// Field 5 of stat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_group: Option<i32>,
    /// Field 39 of stat: the CPU that the main thread last ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<u32>,
    /// `/proc/PID/schedstat` of the main thread, raw: run ns, wait ns, timeslices.
    pub schedstat: Option<String>,
    /// How the main thread is scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Field 6 of stat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<i32>,
    /// The lines of `/proc/PID/status` that schema 1.0 keeps.
    pub status: BTreeMap<String, String>,
    /// CPU time in the kernel, clock ticks (field 15 of stat).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stime_ticks: Option<u64>,
    /// `/proc/PID/syscall` of the main thread, raw.
    pub syscall: Option<String>,
    /// Field 7 of stat: its controlling terminal, such as `pts/3`; another device as `MAJOR:MINOR`; `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<String>,
    /// Every thread: the main thread, then the others by TID.
    pub threads: Vec<Thread>,
    /// CPU time in user mode, clock ticks (field 14 of stat).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utime_ticks: Option<u64>,
    /// `/proc/PID/wchan` of the main thread.
    pub wchan: Option<String>,
}

/// One thread of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// `syscall` in words; absent for `running`, `-1`, and where the number or the kind of machine is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<SystemCall>,
    /// `comm`, up to 15 bytes.
    pub comm: Option<String>,
    /// `comm` with `\\`, `\n` and `\xff` for what is no text; only where `comm` lost something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm_escaped: Option<String>,
    /// `stack`: the kernel stack.
    pub kernel_stack: Vec<String>,
    /// Field 12 of its `stat`: faults that waited for a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub major_faults: Option<u64>,
    /// Field 10 of its `stat`: faults that waited for no disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor_faults: Option<u64>,
    /// Field 39 of its `stat`: the CPU it last ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<u32>,
    /// `schedstat`, raw: run ns, wait ns, timeslices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedstat: Option<String>,
    /// How it is scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
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
    /// By `schedstat` (context switches where the kernel keeps none) it has not run since the snapshot that has this
    /// `capture.started_at`: `call`, `kernel_stack`, `syscall` and `wchan` were read then. Absent where they were read for this
    /// snapshot. All else of it is always read anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchanged_since: Option<Timestamp>,
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
