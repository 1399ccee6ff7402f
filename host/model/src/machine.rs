//! The machine, the task's cgroup and the file systems that matter to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{CgroupLevel, CgroupLimits, Gpu, Mount, OtherCgroup, Pressure, Timestamp};

/// The `machine` object of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineFacts {
    /// The processor architecture, such as `x86_64` or `aarch64`: uname(2), `machine`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// `/proc/sys/kernel/random/boot_id`; start ticks compare only within one boot.
    pub boot_id: Option<String>,
    /// Clock ticks a second (`USER_HZ`), the unit of every `…_ticks`.
    pub clock_ticks_per_second: u64,
    /// Logical CPUs that are online.
    pub cpu_count: Option<u32>,
    /// CPUs that the scheduler may give to the task's main process: `/proc/PID/status`, `Cpus_allowed_list`, which
    /// cpusets narrow, too. Absent where that was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus_allowed: Option<u32>,
    /// CPUs' worth of time that the task may use: `cpus_allowed`, or the tightest quota of its cgroups where that is
    /// less. Absent where neither is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus_usable: Option<f64>,
    /// The version of the NVIDIA driver: `nvmlSystemGetDriverVersion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_driver: Option<String>,
    /// When the NVIDIA driver was asked what it has not answered since. Absent while it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_silent_since: Option<Timestamp>,
    /// The NVIDIA GPUs that we are given. Absent where there is no sign of a driver, or a gap `gpus` says why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Gpu>,
    /// `/proc/sys/kernel/osrelease`.
    pub kernel_release: Option<String>,
    /// The three load averages of `/proc/loadavg`, as text.
    pub load_average: Option<[String; 3]>,
    /// `MemAvailable` of `/proc/meminfo`.
    pub memory_available_bytes: Option<u64>,
    /// File pages that wait to be written: `Dirty` of `/proc/meminfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_dirty_bytes: Option<u64>,
    /// `MemFree` of `/proc/meminfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_free_bytes: Option<u64>,
    /// `MemTotal` of `/proc/meminfo`.
    pub memory_total_bytes: Option<u64>,
    /// File pages that are being written: `Writeback` of `/proc/meminfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_writeback_bytes: Option<u64>,
    /// Bytes in a page.
    pub page_size_bytes: u64,
    /// `/proc/pressure/{cpu,io,memory}` as numbers, under `cpu`, `io` and `memory`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pressure: BTreeMap<String, Pressure>,
    /// `SwapFree` of `/proc/meminfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_free_bytes: Option<u64>,
    /// `SwapTotal` of `/proc/meminfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_total_bytes: Option<u64>,
}

/// The `cgroup` object of a snapshot: the cgroup of the task's main process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cgroup {
    /// The task's own cgroup and those above it, as far as they are visible, innermost first; on version 1 one
    /// hierarchy after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<CgroupLevel>,
    /// File name to raw text, without the trailing newline; empty and absent files are left out.
    pub files: BTreeMap<String, String>,
    /// `/proc/pressure/{cpu,io,memory}`, raw.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host_pressure: BTreeMap<String, String>,
    /// The tightest limit of each controller. Absent where no cgroup of the task is visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<CgroupLimits>,
    /// Where those processes of the task are that are not in the cgroups of its main process; at most 32 such places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherCgroup>,
    /// The directory that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// 2 for the unified hierarchy, 1 where the memory controller is on version 1.
    pub version: u32,
}

/// The `filesystem` object of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filesystem {
    /// The places that matter to the task, with inodes; its working directory among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// `/dev/shm`.
    pub shared_memory: SharedMemory,
}

/// What statvfs(3) says of `/dev/shm`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedMemory {
    /// Whether it could be asked; the numbers are there only then.
    pub available: bool,
    /// `f_frsize`, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u64>,
    /// `f_blocks`, in units of `block_size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// `f_bavail`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_available: Option<u64>,
    /// `f_bfree`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_free: Option<u64>,
    /// `blocks_available` in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_available: Option<u64>,
    /// `blocks` in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<u64>,
    /// The path that was asked.
    pub path: String,
}
