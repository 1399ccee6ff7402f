//! All that was seen on one node at one instant.

use std::collections::HashMap;
use std::fmt;
use std::iter::successors;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    Annotation, Cgroup, Filesystem, Finding, Gap, Ipc, MachineFacts, NamespaceSet, PluginOutcome,
    Process, ProcessId, Spending, Task, Timestamp,
};

/// The `schema_version` of snapshots and indices that we write. We read every `1.x`.
pub const SCHEMA_VERSION: &str = "1.1";

/// So many generations begin within one tick at most; a damaged snapshot may have circles.
const MOST_ABOVE: usize = 100;

/// One snapshot: raw facts, no rates. The stored document, key for key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// What plugins said.
    #[serde(default)]
    pub annotations: Vec<Annotation>,
    /// When and why it was taken.
    pub capture: Capture,
    /// The cgroup of the task's main process.
    pub cgroup: Cgroup,
    /// The version of taskscope that took it.
    pub collector_version: String,
    /// File systems that matter to the task.
    pub filesystem: Filesystem,
    /// What is wrong, as far as plugins and ourselves can tell.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// The `focus-files` setting; never filters.
    pub focus_files: Vec<String>,
    /// What could not be read.
    #[serde(default)]
    pub gaps: Vec<Gap>,
    /// Pipes and sockets.
    pub ipc: Ipc,
    /// The machine.
    #[serde(default)]
    pub machine: MachineFacts,
    /// Distinct sets of namespaces of the processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<NamespaceSet>,
    /// How each plugin's call went.
    #[serde(default)]
    pub plugins: Vec<PluginOutcome>,
    /// Every process of the task, by PID.
    pub processes: Vec<Process>,
    /// [`SCHEMA_VERSION`].
    pub schema_version: String,
    /// Which processes belong to the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeFacts>,
    /// The task.
    pub task: Task,
}

impl Snapshot {
    /// Returns the indices of `processes`, the oldest first: by start time, of one tick parents before their children, then by
    /// PID. A PID alone tells nothing of age: after the highest the kernel gives the lowest that are free (`kernel/pid.c`).
    pub fn by_age(&self) -> Vec<usize> {
        let by_pid: HashMap<i32, &Process> = self.processes.iter().map(|it| (it.pid, it)).collect();
        let age = |&index: &usize| {
            let process = &self.processes[index];
            let parent = |of: &&Process| by_pid.get(&of.ppid).copied();
            let above = successors(Some(process), parent).skip(1).take(MOST_ABOVE);
            let of_same_tick =
                above.take_while(|it| it.start_time_ticks == process.start_time_ticks);
            let depth = of_same_tick.count();
            (process.start_time_ticks, depth, process.pid)
        };
        let mut indices: Vec<usize> = (0..self.processes.len()).collect();
        indices.sort_by_cached_key(age);
        indices
    }

    /// Gives the snapshot its place in an attempt: the task and the sequence number, in its id as well. A snapshot is
    /// taken before these are known, because the store that knows them may be slow to answer.
    pub fn number(&mut self, task: Task, sequence: u64) {
        self.task = task;
        self.capture.sequence = sequence;
        self.capture.id.sequence = sequence;
    }
}

/// The `capture` object of a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capture {
    /// When everything was read.
    pub completed_at: Timestamp,
    /// User and system CPU time for this capture, milliseconds: of the collector's process while it discovered and captured (its
    /// other threads included) and of its helpers, by their CPU clocks (`clock_getcpuclockid(3)`). Helpers that ended meanwhile are not
    /// counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<f64>,
    /// From start to completion, milliseconds, by the monotonic clock.
    pub duration_ms: f64,
    /// How many helper processes of the collector lived when the capture ended, abandoned ones with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helper_count: Option<u32>,
    /// Its identity; also the name of its object.
    pub id: SnapshotId,
    /// The interval in force, seconds; absent for a single snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<f64>,
    /// Cycles that were due since the previous snapshot and did not happen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_cycles: Option<u64>,
    /// From 0 over the attempt.
    pub sequence: u64,
    /// What the collector has spent so far; absent for a single snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spending: Option<Spending>,
    /// When discovery began.
    pub started_at: Timestamp,
    /// What caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
}

/// What caused a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// The task was just started, or we just attached to it.
    Start,
    /// The interval passed.
    Interval,
    /// Somebody asked for it.
    Requested,
    /// A signal such as SIGTERM arrived.
    Signal,
    /// Memory, CPU or I/O pressure rose.
    Pressure,
    /// The task is about to be ended by its scheduler.
    Deadline,
    /// One of a quick series.
    Burst,
    /// The task ended.
    Exit,
}

/// The `scope` object of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeFacts {
    /// The cgroup whose processes belong to the task, for [`ScopeKind::Cgroup`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// How processes are found.
    pub kind: ScopeKind,
    /// The task's main process.
    pub root: ProcessId,
}

/// How the processes of a task are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScopeKind {
    /// The main process and its descendants, re-parented ones included.
    Tree,
    /// Every process of the main process's cgroup and the cgroups below it.
    Cgroup,
}

/// The identity of a snapshot on its node: when it was taken and its sequence number, as
/// `<YYYYmmddTHHMMSS.ffffffZ>-<at least six digits>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId {
    /// When it was taken.
    pub stamp: Timestamp,
    /// Its sequence number.
    pub sequence: u64,
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{:06}", self.stamp.compact(), self.sequence)
    }
}

impl FromStr for SnapshotId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || format!("`{text}` is no snapshot id such as 20261129T144054.169782Z-000000");
        let (stamp, sequence) = text.rsplit_once('-').ok_or_else(error)?;
        let stamp = Timestamp::parse_compact(stamp).ok_or_else(error)?;
        if sequence.len() < 6 || !sequence.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(error());
        }
        let sequence = sequence.parse().map_err(|_| error())?;
        Ok(Self { stamp, sequence })
    }
}

impl Serialize for SnapshotId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SnapshotId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
