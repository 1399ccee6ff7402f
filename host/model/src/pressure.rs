//! Pressure stall information, as numbers.

use serde::{Deserialize, Serialize};

/// One pressure file (`/proc/pressure/…`, `….pressure` of a cgroup): how much time was lost waiting for a resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// While all that could run waited: line `full`; of processors in cgroups since Linux 5.13.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<Stall>,
    /// While at least one waited: line `some`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub some: Option<Stall>,
}

/// One line of a pressure file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// Share of the last 10 seconds, percent: `avg10`.
    pub avg10_percent: f64,
    /// Share of the last 300 seconds, percent: `avg300`.
    pub avg300_percent: f64,
    /// Share of the last 60 seconds, percent: `avg60`.
    pub avg60_percent: f64,
    /// Time since the start of the machine or the cgroup, microseconds: `total`.
    pub total_usec: u64,
}
