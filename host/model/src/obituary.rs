//! How one process of the task ended, and what was last known of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Ending, Gap, ProcessId, SnapshotId, Timestamp, Trace};

/// How one process ended. Obituaries are kept in the order of the ends, several in an [`ObituarySegment`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Obituary {
    /// What was the matter around it when it ended, and may be why it did. Facts; a cause is claimed by whoever reads them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub circumstances: Vec<Circumstance>,
    /// Its CPU time; absent where nobody ever read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<LastCpu>,
    /// When it ended, milliseconds since this collector began to watch, by the monotonic clock.
    pub elapsed_ms: f64,
    /// When it ended, by the wall clock. Where `ended_after` is there, the latest that it can have ended.
    pub ended_at: Timestamp,
    /// When it was last seen living; only where its end was not told but found out later, so that `ended_at` is late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_after: Option<Timestamp>,
    /// How it ended.
    pub ending: Ending,
    /// The newest snapshot that shows it; absent where it lived between two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_snapshot: Option<SnapshotId>,
    /// Its memory when it was last read; absent where it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<LastMemory>,
    /// Its name: `comm`, up to 15 bytes, or of a Python program the script.
    pub name: String,
    /// Its place in the order of the ends that this collector saw, from 0.
    pub order: u64,
    /// Its parent's PID, when it was last seen.
    pub ppid: i32,
    /// `PID:START`.
    pub process: ProcessId,
    /// Its rank, as a plugin said or its environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// Its role, as a plugin said, such as `rank` or `launcher`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The Python stack of its main thread in `last_snapshot`; absent where none was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<Trace>,
    /// When `stack` was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_at: Option<Timestamp>,
}

/// CPU time of a process that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastCpu {
    /// Whether this is all that it used, read after its end; otherwise it is from when it was last looked at.
    pub is_final: bool,
    /// In the kernel, milliseconds.
    pub system_ms: u64,
    /// In user mode, milliseconds.
    pub user_ms: u64,
}

/// Memory of a process that has ended, from when it was last looked at: the kernel keeps none of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastMemory {
    /// When it was read.
    pub at: Timestamp,
    /// `VmHWM`: the largest RSS until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
    /// `VmRSS` then.
    pub rss_bytes: u64,
}

/// Something around a process at its end that may be why it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Circumstance {
    /// The kernel killed a process for want of memory, as counted in the cgroup of this one: it ended by SIGKILL, and no other
    /// SIGKILL there was seen for this count.
    OutOfMemory {
        /// The cgroup that ran out; absent where none of its cgroups was at its limit, so the machine ran out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cgroup: Option<String>,
        /// Who held the most memory when that was last read, largest first; the dead one among them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        holders: Vec<Holder>,
        /// The limit of `cgroup`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit_bytes: Option<u64>,
        /// The most that `cgroup` used; where the kernel does not keep it, what it uses now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage_bytes: Option<u64>,
    },
    /// It ended by SIGBUS, as who writes to a page of shared memory for which there is no room, and `/dev/shm` was full.
    SharedMemoryFull {
        /// Room that was left.
        available_bytes: u64,
        /// The path that was asked.
        path: String,
        /// Its size.
        total_bytes: u64,
    },
    /// It failed, and a file system that the task writes to was full.
    DiskFull {
        /// Room that was left.
        available_bytes: u64,
        /// Inodes that were left, where those had run out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inodes_available: Option<u64>,
        /// The path that was asked, as the task sees it.
        path: String,
        /// Its size.
        total_bytes: u64,
    },
    /// It failed, and when it was last seen it had as many open files as it may have (`EMFILE`), or nearly.
    DescriptorsExhausted {
        /// Its soft limit, `RLIMIT_NOFILE`.
        limit: u64,
        /// How many were open.
        open: u64,
    },
}

/// A process and the memory that it held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its name, as in its obituary.
    pub name: String,
    /// `PID:START`.
    pub process: ProcessId,
    /// Its rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// `VmRSS` when it was last read.
    pub rss_bytes: u64,
}

/// The obituaries that one object of a store holds: those that came since the object before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObituarySegment {
    /// In the order of the ends.
    pub obituaries: Vec<Obituary>,
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: String,
    /// Ends that left no obituary up to now.
    #[serde(default)]
    pub unseen: Unseen,
}

/// What is known of ends that have no obituary of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// Processes that began and ended between two looks, orphans that came to us not counted; absent in what was stored before they
    /// were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_looks: Option<BetweenLooks>,
    /// Orphans of the task that ended and were reaped by us before anybody had looked at them.
    pub orphans: u64,
    /// Processes killed for want of memory in cgroups of the task, of which no obituary tells.
    #[serde(default)]
    pub out_of_memory: u64,
    /// Obituaries that were given up because there were more than are kept; the first and the notable ones are kept.
    #[serde(default)]
    pub dropped: u64,
    /// Processes that were seen while more than we may hold open lived, or under a PID that may be another process for us
    /// (`--proc-root`): their end is found out by looking, and how they ended is not known.
    #[serde(default)]
    pub unheld: u64,
}

/// Processes of the task that began and ended without anybody having looked: their own parent has taken their status, or in `attach`
/// whoever takes orphans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BetweenLooks {
    /// How many: all of them, or where there is a `gap` so many at least.
    pub count: u64,
    /// How many of them did not exit with 0 and died of no signal; only of those whose end the kernel told.
    #[serde(default)]
    pub failed: u64,
    /// Why there may be more; absent where there are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// How many died of which signal, by its number; only of those whose end the kernel told.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub killed: BTreeMap<i32, u64>,
}
