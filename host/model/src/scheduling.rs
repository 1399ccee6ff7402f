//! How the kernel schedules a process or thread.

use serde::{Deserialize, Serialize};

/// How a thread is scheduled, from its `/proc/PID/task/TID/stat` (kernel: `fs/proc/array.c`, `do_task_stat`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduling {
    /// Field 19 of stat: -20 (served first) to 19. Means nothing under a real-time policy.
    pub nice: i64,
    /// Field 41 of stat.
    pub policy: SchedulingPolicy,
    /// Field 18 of stat: 20 + nice under the ordinary policies, else -1 - the real-time priority; -101 for deadline.
    pub priority: i64,
    /// Field 40 of stat: 1 to 99 under `fifo` and `round_robin`, else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realtime_priority: Option<u32>,
}

/// A scheduling policy, `sched(7)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulingPolicy {
    /// `SCHED_OTHER`: time sharing, as most.
    #[default]
    Other,
    /// `SCHED_FIFO`: real time, runs until it waits.
    Fifo,
    /// `SCHED_RR`: real time, in turns.
    RoundRobin,
    /// `SCHED_BATCH`: as `other`, thought to be busy.
    Batch,
    /// `SCHED_IDLE`: when nothing else wants to run.
    Idle,
    /// `SCHED_DEADLINE`.
    Deadline,
    /// `SCHED_EXT`: by a BPF program (since Linux 6.12).
    Extension,
    /// One that we do not know.
    Unknown,
}
