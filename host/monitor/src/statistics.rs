//! What many readings come to: counts, peaks, and what was used.

use serde::{Deserialize, Serialize};

use crate::reading::known_sum;
use crate::{Reading, Usage};

/// Readings of the whole run, or of one stage, folded. A peak is null until there was a value. Peaks of stages that overlap are
/// inclusive: what a sample says counts in every stage that was open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Samples in which the memory of a process could not be read.
    #[serde(default)]
    pub partial_rss_samples: u64,
    /// Memory of the task's own cgroup, page cache included.
    #[serde(default)]
    pub peak_cgroup_memory_bytes: Option<u64>,
    /// As [`Reading::children_rss_bytes`].
    #[serde(default)]
    pub peak_children_rss_bytes: Option<u64>,
    /// As [`Reading::cpu_percent`].
    #[serde(default)]
    pub peak_cpu_percent: Option<f64>,
    /// Memory in use on all GPUs together, by whomever.
    #[serde(default)]
    pub peak_gpu_memory_bytes: Option<u64>,
    /// As [`Reading::parent_rss_bytes`].
    #[serde(default)]
    pub peak_parent_rss_bytes: Option<u64>,
    /// As [`Reading::process_count`].
    #[serde(default)]
    pub peak_process_count: Option<u64>,
    /// As [`Reading::thread_count`].
    #[serde(default)]
    pub peak_thread_count: Option<u64>,
    /// A measure of macOS: always null.
    #[serde(default)]
    pub peak_tree_physical_footprint_bytes: Option<u64>,
    /// As [`Reading::tree_pss_bytes`].
    #[serde(default)]
    pub peak_tree_pss_bytes: Option<u64>,
    /// As [`Reading::tree_rss_bytes`].
    #[serde(default)]
    pub peak_tree_rss_bytes: Option<u64>,
    /// As [`Reading::tree_swap_bytes`].
    #[serde(default)]
    pub peak_tree_swap_bytes: Option<u64>,
    /// As [`Reading::tree_uss_bytes`].
    #[serde(default)]
    pub peak_tree_uss_bytes: Option<u64>,
    /// How many samples there were.
    #[serde(default)]
    pub samples: u64,
    /// What was used between the first sample and the last; null until there were two.
    #[serde(default)]
    pub used: Option<Usage>,
}

impl Statistics {
    /// Adds one reading.
    pub fn fold(&mut self, reading: &Reading) {
        self.samples += 1;
        self.partial_rss_samples += u64::from(!reading.rss_complete);
        let cgroup = reading
            .cgroup
            .as_ref()
            .and_then(|cgroup| cgroup.usage_bytes);
        raise(&mut self.peak_cgroup_memory_bytes, cgroup);
        raise(
            &mut self.peak_children_rss_bytes,
            reading.children_rss_bytes,
        );
        raise(&mut self.peak_gpu_memory_bytes, gpu_memory(reading));
        raise(&mut self.peak_parent_rss_bytes, reading.parent_rss_bytes);
        raise(&mut self.peak_process_count, Some(reading.process_count));
        raise(&mut self.peak_thread_count, Some(reading.thread_count));
        raise(&mut self.peak_tree_pss_bytes, reading.tree_pss_bytes);
        raise(&mut self.peak_tree_rss_bytes, reading.tree_rss_bytes);
        raise(&mut self.peak_tree_swap_bytes, reading.tree_swap_bytes);
        raise(&mut self.peak_tree_uss_bytes, reading.tree_uss_bytes);
        if let Some(percent) = reading.cpu_percent {
            self.peak_cpu_percent = Some(self.peak_cpu_percent.unwrap_or(0.0).max(percent));
        }
        if let Some(used) = reading.used {
            self.used = Some(self.used.unwrap_or_default().plus(used));
        }
    }
}

impl Statistics {
    /// Adds what other readings come to.
    pub fn merge(&mut self, other: &Self) {
        self.samples += other.samples;
        self.partial_rss_samples += other.partial_rss_samples;
        let pairs = [
            (
                &mut self.peak_cgroup_memory_bytes,
                other.peak_cgroup_memory_bytes,
            ),
            (
                &mut self.peak_children_rss_bytes,
                other.peak_children_rss_bytes,
            ),
            (&mut self.peak_gpu_memory_bytes, other.peak_gpu_memory_bytes),
            (&mut self.peak_parent_rss_bytes, other.peak_parent_rss_bytes),
            (&mut self.peak_process_count, other.peak_process_count),
            (&mut self.peak_thread_count, other.peak_thread_count),
            (&mut self.peak_tree_pss_bytes, other.peak_tree_pss_bytes),
            (&mut self.peak_tree_rss_bytes, other.peak_tree_rss_bytes),
            (&mut self.peak_tree_swap_bytes, other.peak_tree_swap_bytes),
            (&mut self.peak_tree_uss_bytes, other.peak_tree_uss_bytes),
        ];
        for (peak, value) in pairs {
            raise(peak, value);
        }
        if let Some(percent) = other.peak_cpu_percent {
            self.peak_cpu_percent = Some(self.peak_cpu_percent.unwrap_or(0.0).max(percent));
        }
        if let Some(used) = other.used {
            self.used = Some(self.used.unwrap_or_default().plus(used));
        }
    }
}

/// Returns the memory in use on all GPUs together.
pub(crate) fn gpu_memory(reading: &Reading) -> Option<u64> {
    let used = reading.gpus.iter().filter_map(|gpu| gpu.memory_used_bytes);
    used.reduce(u64::saturating_add)
}

fn raise(peak: &mut Option<u64>, value: Option<u64>) {
    *peak = (*peak).max(value);
}

impl Usage {
    pub(crate) fn plus(self, more: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds + more.cpu_seconds,
            involuntary_switches: known_sum(self.involuntary_switches, more.involuntary_switches),
            major_faults: known_sum(self.major_faults, more.major_faults),
            minor_faults: known_sum(self.minor_faults, more.minor_faults),
            read_bytes: known_sum(self.read_bytes, more.read_bytes),
            seconds: self.seconds + more.seconds,
            voluntary_switches: known_sum(self.voluntary_switches, more.voluntary_switches),
            written_bytes: known_sum(self.written_bytes, more.written_bytes),
        }
    }
}
