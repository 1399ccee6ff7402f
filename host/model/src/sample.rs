//! One cheap reading of memory and CPU between snapshots: counters as the kernel keeps them, no rates.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Gap, Limit, Pressure, ProcessId, Timestamp};

/// One reading of all processes of a task. What could not be read is absent and has a gap; sums are over those that could.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When it began, by the clock of the node.
    pub at: Timestamp,
    /// What the cgroups of the main process use and allow; absent where it is in the root one, or none is visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<CgroupSample>,
    /// CPU time of the thread that read it, milliseconds; helpers not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<f64>,
    /// How long reading took, milliseconds by the monotonic clock.
    #[serde(default)]
    pub duration_ms: f64,
    /// From the start of the collector to when it began, seconds by the monotonic clock.
    #[serde(default)]
    pub elapsed_seconds: f64,
    /// What could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    /// The NVIDIA GPUs that we are given, as their helper last told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuSample>,
    /// The machine.
    #[serde(default)]
    pub machine: MachineSample,
    /// Every process of the task, by PID.
    pub processes: Vec<ProcessSample>,
    /// The main process, whether it is still there or not.
    pub root: ProcessId,
}

/// What a sample says of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSample {
    /// `PID:START`.
    pub identity: ProcessId,
    /// Switches of its main thread that it did not ask for: `nonvoluntary_ctxt_switches` of `/proc/PID/status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub involuntary_switches: Option<u64>,
    /// Faults that waited for a disk: field 12 of `/proc/PID/stat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub major_faults: Option<u64>,
    /// Faults that waited for no disk: field 10 of `/proc/PID/stat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor_faults: Option<u64>,
    /// `comm`, up to 15 bytes.
    pub name: String,
    /// `VmHWM`: the largest RSS so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
    /// Its parent's PID.
    pub ppid: i32,
    /// `Pss` of `smaps_rollup`, in samples that walk its memory; never taken over from an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss_bytes: Option<u64>,
    /// Bytes that it had read from storage: `read_bytes` of `/proc/PID/io`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Field 24 of `/proc/PID/stat` in bytes; shared pages count in every process that maps them. Absent for a zombie, whose
    /// memory is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// Field 3 of `/proc/PID/stat`: one letter.
    pub state: char,
    /// CPU time in the kernel, clock ticks: field 15 of `/proc/PID/stat`.
    pub stime_ticks: u64,
    /// `VmSwap` of `/proc/PID/status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_bytes: Option<u64>,
    /// How many threads it has.
    pub threads: u64,
    /// What is freed when it ends (`Private_*` of `smaps_rollup`), in samples that walk its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uss_bytes: Option<u64>,
    /// CPU time in user mode, clock ticks: field 14 of `/proc/PID/stat`.
    pub utime_ticks: u64,
    /// Switches of its main thread that it asked for: `voluntary_ctxt_switches` of `/proc/PID/status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voluntary_switches: Option<u64>,
    /// Bytes that it had written to storage: `write_bytes` of `/proc/PID/io`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
}

impl ProcessSample {
    /// Returns one of which nothing is known but who it is.
    pub fn of(identity: ProcessId) -> Self {
        Self {
            identity,
            involuntary_switches: None,
            major_faults: None,
            minor_faults: None,
            name: String::new(),
            peak_rss_bytes: None,
            ppid: 0,
            pss_bytes: None,
            read_bytes: None,
            rss_bytes: None,
            state: 'S',
            stime_ticks: 0,
            swap_bytes: None,
            threads: 1,
            uss_bytes: None,
            utime_ticks: 0,
            voluntary_switches: None,
            written_bytes: None,
        }
    }
}

/// What a sample says of the cgroups of the main process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CgroupSample {
    /// Memory without a file, of the task's own cgroup: `anon`; version 1 `total_rss`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anon_bytes: Option<u64>,
    /// Processor time of the task's own cgroup, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_usec: Option<u64>,
    /// Page cache of the task's own cgroup, shared memory included: `file`; version 1 `total_cache`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// The tightest memory limit on the chain.
    #[serde(default)]
    pub limit_bytes: Limit,
    /// How often that limit was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_hits: Option<u64>,
    /// The cgroup that sets the limit; the task's own where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_path: Option<String>,
    /// `usage_bytes` of the cgroup that sets the limit, which may hold others than the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_usage_bytes: Option<u64>,
    /// How many processes were killed because memory ran out, in the cgroup that sets the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// The task's own cgroup, of the memory controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `cpu`, `io` and `memory`: `cpu.pressure` and the like of the task's own cgroup; version 2 only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pressure: BTreeMap<String, Pressure>,
    /// Processors' worth of time that the tightest quota on the chain allows; absent where there is none or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_cpus: Option<f64>,
    /// Shared memory and tmpfs of the task's own cgroup: `shmem`; version 1 `total_shmem`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shmem_bytes: Option<u64>,
    /// Time that threads of the cgroup with the quota were held back, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_usec: Option<u64>,
    /// `memory.current` of the task's own cgroup; version 1 `memory.usage_in_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_bytes: Option<u64>,
}

/// What a sample says of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineSample {
    /// Logical CPUs that are online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_count: Option<u32>,
    /// Time that CPUs have had nothing to run since boot, added up, seconds: `/proc/uptime`, second number. Waiting for a disk is
    /// not part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<f64>,
    /// The three load averages of `/proc/loadavg`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_average: Option<[f64; 3]>,
    /// `MemAvailable` of `/proc/meminfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_available_bytes: Option<u64>,
    /// `MemTotal` of `/proc/meminfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_total_bytes: Option<u64>,
    /// `/proc/pressure/{cpu,io,memory}` under `cpu`, `io` and `memory`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pressure: BTreeMap<String, Pressure>,
    /// Time since boot, seconds: `/proc/uptime`, first number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime_seconds: Option<f64>,
}

/// What a sample says of one GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuSample {
    /// Its number for NVML.
    pub index: u32,
    /// Device memory in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_total_bytes: Option<u64>,
    /// Device memory that is allocated, by whomever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_used_bytes: Option<u64>,
    /// The name of the product.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Share of the last sample period in which something ran on it, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization_percent: Option<u32>,
}

impl Sample {
    /// Returns over how many processes `of` has a value, and their sum; none where it has no value at all.
    pub fn sum(&self, of: impl Fn(&ProcessSample) -> Option<u64>) -> (usize, Option<u64>) {
        let values: Vec<u64> = self.processes.iter().filter_map(of).collect();
        let sum = values
            .iter()
            .fold(0, |sum: u64, &value| sum.saturating_add(value));
        (values.len(), (!values.is_empty()).then_some(sum))
    }
}
