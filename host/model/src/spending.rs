//! What a collector spends on watching, and what it leaves out to spend less.

use serde::{Deserialize, Serialize};

/// The `capture.spending` object of a snapshot: what this collector has spent from its start to the start of this capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spending {
    /// The setting `[capture] budget`: what may be spent, percent of one core; absent where an interval is set, because then cost is
    /// only reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_percent: Option<f64>,
    /// How much was looked at.
    #[serde(default)]
    pub detail: Detail,
    /// The longest cycle so far, milliseconds by the monotonic clock: capture, plugins and encoding; absent in the first snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_cycle_ms: Option<f64>,
    /// Size of the snapshot before this one, as compressed for the store; absent in the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_snapshot_bytes: Option<u64>,
    /// User and system CPU time since the end of the cycle before, percent of one core; absent in the first snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent_percent: Option<f64>,
    /// User and system CPU time on average since the collector's start, percent of one core: of its process, plugins, encoding and
    /// storing included, and of its helpers, by their CPU clocks. Of a helper that ended, what it used since the cycle before is not
    /// counted, but for compilers of plugins, which tell. Absent in the first snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_percent: Option<f64>,
    /// The interval that is asked for, seconds; where `capture.interval_s` is longer, it was stretched to stay within the budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_interval_s: Option<f64>,
    /// Size of all snapshots that this collector has written, compressed; the index is not counted.
    #[serde(default)]
    pub written_bytes: u64,
}

/// How much a capture looks at. Each level leaves out all that those before it leave out, in the order of the declaration.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// All that the settings ask for.
    #[default]
    Full,
    /// Shared memory is not told apart by its users (PSS, USS): it costs time by the page, and RSS says nearly as much.
    WithoutSharedMemory,
    /// Kernel stacks of threads are not read: the system call and `wchan` still say where each waits.
    WithoutThreadDetail,
    /// What descriptors and sockets are connected with is not asked (`fdinfo` and `ipc`): what is open is still listed.
    WithoutConnections,
    /// Python stacks are not read. What stays: processes, threads with their state and system call, memory, CPU time, limits.
    WithoutPythonStacks,
}

impl Detail {
    /// Every level, the fullest first.
    pub const ALL: [Self; 5] = [
        Self::Full,
        Self::WithoutSharedMemory,
        Self::WithoutThreadDetail,
        Self::WithoutConnections,
        Self::WithoutPythonStacks,
    ];
}
