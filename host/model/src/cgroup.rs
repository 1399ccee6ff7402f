//! What the cgroups of a task allow and use, as numbers: the task's own cgroup and every visible one above it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Pressure, ProcessId};

/// A limit. `"unknown"` (it could not be read), `"unlimited"` and `{"at": number}` are three different things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// It could not be found out.
    #[default]
    Unknown,
    /// There is none.
    Unlimited,
    /// The limit, in the unit that the field names. It may be more than the machine has.
    At(u64),
}

impl Limit {
    /// Returns the number where there is one.
    pub fn number(self) -> Option<u64> {
        match self {
            Self::At(number) => Some(number),
            Self::Unknown | Self::Unlimited => None,
        }
    }
}

/// One cgroup of the chain from the task's own up to the highest that is visible. On version 1 each hierarchy has a
/// chain of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CgroupLevel {
    /// Processor time; absent where the controller is not in force here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CgroupCpu>,
    /// `unified` for version 2, else the controllers of the version 1 hierarchy, such as `cpu,cpuacct`.
    pub hierarchy: String,
    /// Reads and writes of block devices; of the task's own cgroup only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<CgroupIo>,
    /// Memory; absent where the controller is not in force here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<CgroupMemory>,
    /// The directory.
    pub path: String,
    /// Processes and threads; absent where the controller is not in force here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<CgroupPids>,
    /// `cpu.pressure`, `io.pressure` and `memory.pressure` under `cpu`, `io` and `memory`; version 2 only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pressure: BTreeMap<String, Pressure>,
}

/// Processor time of a cgroup and all below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupCpu {
    /// The period of the quota, microseconds: `cpu.max`, second number; version 1 `cpu.cfs_period_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_usec: Option<u64>,
    /// Periods that have passed with a quota in force: `cpu.stat`, `nr_periods`. Above the task's own cgroup it is read
    /// only where there is a quota, as are the other numbers of `cpu.stat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periods: Option<u64>,
    /// Processor time allowed in a period, microseconds: `cpu.max`, first number; version 1 `cpu.cfs_quota_us`, where
    /// -1 is unlimited.
    #[serde(default)]
    pub quota_usec: Limit,
    /// In the kernel, microseconds: `cpu.stat`, `system_usec`; version 2 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_usec: Option<u64>,
    /// Periods in which the quota ran out: `cpu.stat`, `nr_throttled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_periods: Option<u64>,
    /// Time that threads were held back, microseconds: `cpu.stat`, `throttled_usec`; version 1 `throttled_time`, there
    /// nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_usec: Option<u64>,
    /// All of it, microseconds: `cpu.stat`, `usage_usec`; version 1 `cpuacct.usage`, there nanoseconds, where that
    /// controller shares the hierarchy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_usec: Option<u64>,
    /// In user space, microseconds: `cpu.stat`, `user_usec`; version 2 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_usec: Option<u64>,
}

/// Reads and writes of a cgroup, summed over devices: `io.stat`, or version 1 `blkio.throttle.io_service_bytes_recursive`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupIo {
    /// `rbytes`.
    pub read_bytes: u64,
    /// `rios`; version 2 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<u64>,
    /// `wios`; version 2 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<u64>,
    /// `wbytes`.
    pub written_bytes: u64,
}

/// Memory of a cgroup and all below it. The parts come from `memory.stat`, which is read of the task's own cgroup only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupMemory {
    /// Memory without a file: `memory.stat`, `anon`; version 1 `total_rss`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anon_bytes: Option<u64>,
    /// Pages of files that are not yet written back: `file_dirty`; version 1 `total_dirty`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_bytes: Option<u64>,
    /// Page cache, shared memory included: `file`; version 1 `total_cache`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// Above this, allocations are slowed down: `memory.high`; always unknown on version 1, which has none.
    #[serde(default)]
    pub high_bytes: Limit,
    /// How often `high_bytes` was exceeded: `memory.events`, `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_hits: Option<u64>,
    /// Page cache that can be given up first: `inactive_file`; version 1 `total_inactive_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inactive_file_bytes: Option<u64>,
    /// Memory of the kernel: `kernel` (since Linux 5.18); version 1 `memory.kmem.usage_in_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_bytes: Option<u64>,
    /// Above this, something is killed: `memory.max`; version 1 `memory.limit_in_bytes`.
    #[serde(default)]
    pub limit_bytes: Limit,
    /// How often the limit was reached: `memory.events`, `max`; version 1 `memory.failcnt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_hits: Option<u64>,
    /// Limit of memory and swap together: `memory.memsw.limit_in_bytes`; version 1 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_and_swap_limit_bytes: Option<Limit>,
    /// How often memory ran out: `memory.events`, `oom`; version 2 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_events: Option<u64>,
    /// How many processes were killed for it: `memory.events`, `oom_kill` (here and below); version 1
    /// `memory.oom_control`, `oom_kill` (here only, since Linux 4.13).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// The most it ever was: `memory.peak` (since Linux 5.19); version 1 `memory.max_usage_in_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Shared memory and tmpfs, `/dev/shm` included: `shmem`; version 1 `total_shmem`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shmem_bytes: Option<u64>,
    /// Swapped out: `memory.swap.current`; version 1 `memory.stat`, `total_swap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_bytes: Option<u64>,
    /// `memory.swap.max`; always unknown on version 1.
    #[serde(default)]
    pub swap_limit_bytes: Limit,
    /// Whether it waits for memory now, its killer being switched off: `memory.oom_control`, `under_oom`; version 1 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_oom: Option<bool>,
    /// `memory.current`; version 1 `memory.usage_in_bytes`. Absent in the root cgroup of version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_bytes: Option<u64>,
    /// Pages that are being written: `file_writeback`; version 1 `total_writeback`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writeback_bytes: Option<u64>,
}

/// Threads of a cgroup and all below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupPids {
    /// Above this, fork and clone fail: `pids.max`.
    #[serde(default)]
    pub limit: Limit,
    /// How often they failed for it: `pids.events`, `max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_hits: Option<u64>,
    /// `pids.current`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<u64>,
}

/// The cgroups of processes that were moved out of those of the main process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OtherCgroup {
    /// Their own cgroup and those above it, innermost first, without those of the main process's chain.
    pub chain: Vec<CgroupLevel>,
    /// What binds them: the tightest limits on the whole of their chain. Absent where no cgroup of theirs is visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<CgroupLimits>,
    /// The processes, by PID.
    pub processes: Vec<ProcessId>,
}

/// What binds the task: of each controller the tightest limit on the chain, with the usage of the cgroup that sets it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupLimits {
    /// Absent where no hierarchy with the controller is visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuLimit>,
    /// Absent where no hierarchy with the controller is visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryLimit>,
    /// Absent where no hierarchy with the controller is visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<PidsLimit>,
}

/// The smallest share of processors on the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuLimit {
    /// Whether the chain was seen up to the root of the machine; if not, a cgroup above may be tighter.
    pub is_whole: bool,
    /// The cgroup with the limit; the task's own where there is none.
    pub path: String,
    /// As [`CgroupCpu::period_usec`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_usec: Option<u64>,
    /// As [`CgroupCpu::quota_usec`].
    #[serde(default)]
    pub quota_usec: Limit,
    /// As [`CgroupCpu::throttled_periods`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_periods: Option<u64>,
    /// As [`CgroupCpu::throttled_usec`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_usec: Option<u64>,
}

/// The smallest memory limit on the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// The smallest `memory.high` on the chain.
    #[serde(default)]
    pub high_bytes: Limit,
    /// Whether the chain was seen up to the root of the machine; if not, a cgroup above may be tighter.
    pub is_whole: bool,
    /// As [`CgroupMemory::limit_bytes`].
    #[serde(default)]
    pub limit_bytes: Limit,
    /// The cgroup with the limit; the task's own where there is none. Absent where version 1 tells the limit
    /// (`hierarchical_memory_limit`) of a cgroup that is not visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// As [`CgroupMemory::usage_bytes`], of `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_bytes: Option<u64>,
}

/// The limit of processes and threads on the chain that leaves room for the fewest more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PidsLimit {
    /// Whether the chain was seen up to the root of the machine; if not, a cgroup above may be tighter.
    pub is_whole: bool,
    /// As [`CgroupPids::limit`].
    #[serde(default)]
    pub limit: Limit,
    /// The cgroup with the limit; the task's own where there is none.
    pub path: String,
    /// As [`CgroupPids::usage`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<u64>,
}
