//! Graphics processors, as the NVIDIA Management Library (NVML) tells of them.

use serde::{Deserialize, Serialize};

use crate::ProcessId;

/// One GPU. What the device does not support is absent; what it should tell and did not, a gap names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its number for NVML, by PCI address; CUDA may count in another order: `nvmlDeviceGetHandleByIndex_v2`.
    pub index: u32,
    /// Whether it is split into instances (MIG), of which only the whole is told here: `nvmlDeviceGetMigMode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_mig_enabled: Option<bool>,
    /// Device memory that is free: `nvmlDeviceGetMemoryInfo_v2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_free_bytes: Option<u64>,
    /// Device memory that the driver keeps for itself; not part of the used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_reserved_bytes: Option<u64>,
    /// Device memory in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_total_bytes: Option<u64>,
    /// Device memory that is allocated, by whomever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_used_bytes: Option<u64>,
    /// Share of the last sample period in which device memory was read or written, percent:
    /// `nvmlDeviceGetUtilizationRates`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_utilization_percent: Option<u32>,
    /// The name of the product: `nvmlDeviceGetName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its PCI address, such as `00000000:65:00.0`: `nvmlDeviceGetPciInfo_v3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_bus_id: Option<String>,
    /// From 0, the fastest, to 15: `nvmlDeviceGetPerformanceState`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub performance_state: Option<u32>,
    /// Power drawn, milliwatts: `nvmlDeviceGetPowerUsage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_milliwatts: Option<u32>,
    /// Every process that computes or draws on it, the task's or not, as far as the driver shows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<GpuProcess>,
    /// Degrees Celsius: `nvmlDeviceGetTemperature`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<u32>,
    /// Why its clocks are lower than they could be, such as `gpu_idle`, `sw_power_cap` or `hw_thermal_slowdown`:
    /// `nvmlDeviceGetCurrentClocksThrottleReasons`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttle_reasons: Vec<String>,
    /// Why it is of no use to anybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<GpuTrouble>,
    /// Share of the last sample period in which a kernel ran on it, percent: `nvmlDeviceGetUtilizationRates`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization_percent: Option<u32>,
    /// Its identity, which no other GPU has: `nvmlDeviceGetUUID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

/// Why a GPU is of no use. Serialises in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuTrouble {
    /// It fell off the bus or cannot be reached: `NVML_ERROR_GPU_IS_LOST`.
    Lost,
    /// It works again only after a reset: `NVML_ERROR_RESET_REQUIRED`.
    ResetRequired,
}

/// A process with a context on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuProcess {
    /// The process of the task that it is: the one with this PID, where that holds a descriptor of `/dev/nvidia…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<ProcessId>,
    /// What it does there.
    pub kind: GpuProcessKind,
    /// Device memory that it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_used_bytes: Option<u64>,
    /// The PID that the driver gives: as our own PID namespace numbers it with newer drivers, which leave out what is
    /// not in it; as the host does with older ones.
    pub pid: u32,
}

/// What a process does on a GPU. Serialises in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuProcessKind {
    /// CUDA and the like: `nvmlDeviceGetComputeRunningProcesses_v3`.
    Compute,
    /// Vulkan and the like: `nvmlDeviceGetGraphicsRunningProcesses_v3`.
    Graphics,
}
