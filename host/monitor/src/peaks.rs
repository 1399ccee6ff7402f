//! The highest value of each measure: when it was, in which stage, and which processes made it.

use std::collections::BTreeMap;

use model::{ProcessId, ProcessSample, Sample, Timestamp};
use serde::{Deserialize, Serialize};

use crate::Reading;
use crate::reading::{cpu_ticks, percent, seconds_of};
use crate::statistics::gpu_memory;

/// So many processes are named with a peak.
const MOST_HOLDERS: usize = 5;

/// The highest value that a measure had.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// When the sample began, by the clock of the node.
    pub at: Timestamp,
    /// From the start of the collector, seconds by the monotonic clock.
    pub elapsed_seconds: f64,
    /// The processes that had the largest parts of it, the largest first; at most five. Empty for what has no parts.
    #[serde(default)]
    pub holders: Vec<Holder>,
    /// Whether a process could not be read in that sample: then the true value was higher, or another sample's is.
    pub is_partial: bool,
    /// The stages that were open.
    pub stage: String,
    /// In the unit that the measure's name ends with.
    pub value: f64,
}

/// A process and its part of a peak.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// `PID:START`.
    pub identity: ProcessId,
    /// `comm`.
    pub name: String,
    /// In the unit of the peak.
    pub value: f64,
}

/// The peaks by the name of their measure.
pub(crate) type Peaks = BTreeMap<String, Peak>;

/// Raises the peaks that `reading`, which is of `sample`, is above; `before` is the sample before it.
pub(crate) fn raise(
    peaks: &mut Peaks,
    reading: &Reading,
    sample: &Sample,
    before: Option<&Sample>,
    ticks: u64,
) {
    let mut raise = |name: &str, value: Option<u64>, is_partial, part: Part<u64>| {
        let part = |it: &ProcessSample| part(it).map(float);
        raise_one(
            peaks,
            (name, value.map(float), is_partial),
            reading,
            sample,
            &part,
        );
    };
    let no_parts = |_: &ProcessSample| None;
    let cgroup = reading.cgroup.as_ref().and_then(|it| it.usage_bytes);
    let (rss, pss) = (!reading.rss_complete, !reading.pss_complete);
    raise("cgroup_memory_bytes", cgroup, false, &no_parts);
    raise("gpu_memory_bytes", gpu_memory(reading), false, &no_parts);
    raise(
        "process_count",
        Some(reading.process_count),
        false,
        &no_parts,
    );
    raise("thread_count", Some(reading.thread_count), false, &|it| {
        Some(it.threads)
    });
    raise("tree_pss_bytes", reading.tree_pss_bytes, pss, &|it| {
        it.pss_bytes
    });
    raise("tree_rss_bytes", reading.tree_rss_bytes, rss, &|it| {
        it.rss_bytes
    });
    raise("tree_swap_bytes", reading.tree_swap_bytes, rss, &|it| {
        it.swap_bytes
    });
    raise("tree_uss_bytes", reading.tree_uss_bytes, pss, &|it| {
        it.uss_bytes
    });
    let seconds = before.map(|before| sample.elapsed_seconds - before.elapsed_seconds);
    let cpu = |it: &ProcessSample| percent(seconds_of(cpu_ticks(it, before?)?, ticks), seconds?);
    let is_partial = reading.cpu_processes < reading.process_count;
    let of_cpu = ("cpu_percent", reading.cpu_percent, is_partial);
    raise_one(peaks, of_cpu, reading, sample, &cpu);
}

/// The part that a process has of a measure.
type Part<'a, T> = &'a dyn Fn(&ProcessSample) -> Option<T>;

/// Raises the peak of a measure, which is given by its name, its value, and whether a process is missing in it.
fn raise_one(
    peaks: &mut Peaks,
    (name, value, is_partial): (&str, Option<f64>, bool),
    reading: &Reading,
    sample: &Sample,
    part: Part<f64>,
) {
    let Some(value) = value else { return };
    if peaks.get(name).is_some_and(|peak| value <= peak.value) {
        return;
    }
    let peak = Peak {
        at: reading.at,
        elapsed_seconds: reading.elapsed_seconds,
        holders: holders(sample, part),
        is_partial,
        stage: reading.stage.clone(),
        value,
    };
    peaks.insert(name.to_owned(), peak);
}

fn holders(sample: &Sample, part: &dyn Fn(&ProcessSample) -> Option<f64>) -> Vec<Holder> {
    let parts = sample.processes.iter().filter_map(|process| {
        let value = part(process).filter(|&value| value > 0.0)?;
        Some(Holder {
            identity: process.identity,
            name: process.name.clone(),
            value,
        })
    });
    let mut holders: Vec<Holder> = parts.collect();
    holders.sort_by(|a, b| {
        b.value
            .total_cmp(&a.value)
            .then(a.identity.cmp(&b.identity))
    });
    holders.truncate(MOST_HOLDERS);
    holders
}

#[expect(clippy::cast_precision_loss, reason = "no measure reaches 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}
