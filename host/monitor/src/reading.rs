//! What one sample says of the task as a whole, with what follows from the sample before it.

use std::collections::BTreeMap;

use model::{CgroupSample, GpuSample, MachineSample, ProcessId, ProcessSample, Sample, Timestamp};
use serde::{Deserialize, Serialize};

/// One sample without its processes. Sums are over the processes that could be read, of which there is a count beside them;
/// null is "not known", never 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// When the sample began, by the clock of the node.
    pub at: Timestamp,
    /// The cgroups of the main process.
    #[serde(default)]
    pub cgroup: Option<CgroupSample>,
    /// RSS of all but the main process.
    pub children_rss_bytes: Option<u64>,
    /// CPU time since the sample before, percent of one core, of processes that were in both. Null in the first sample.
    pub cpu_percent: Option<f64>,
    /// How many processes `cpu_percent` is of.
    #[serde(default)]
    pub cpu_processes: u64,
    /// From the start of the collector, seconds by the monotonic clock.
    pub elapsed_seconds: f64,
    /// The GPUs.
    #[serde(default)]
    pub gpus: Vec<GpuSample>,
    /// The machine.
    #[serde(default)]
    pub machine: MachineSample,
    /// How busy the whole machine was since the sample before, percent of all its CPUs.
    #[serde(default)]
    pub machine_cpu_percent: Option<f64>,
    /// RSS of the main process.
    pub parent_rss_bytes: Option<u64>,
    /// How many processes the task had.
    pub process_count: u64,
    /// Whether the share of memory of all of them was read.
    #[serde(default)]
    pub pss_complete: bool,
    /// Of how many the share of memory was read (`tree_pss_bytes`, `tree_uss_bytes`).
    #[serde(default)]
    pub pss_processes: u64,
    /// Whether the memory of all of them was read. A zombie has none and counts as read.
    pub rss_complete: bool,
    /// Of how many the memory was read.
    pub rss_processes: u64,
    /// The stages that were open, or [`crate::NO_STAGE`].
    pub stage: String,
    /// How many threads they had.
    #[serde(default)]
    pub thread_count: u64,
    /// A measure of macOS: always null.
    pub tree_physical_footprint_bytes: Option<u64>,
    /// Sum of PSS: RSS in which each page counts once, shared among its users. Null in samples that walk no memory.
    pub tree_pss_bytes: Option<u64>,
    /// Sum of RSS. An overcount: a page that n processes share is counted n times.
    pub tree_rss_bytes: Option<u64>,
    /// Sum of what is swapped out.
    #[serde(default)]
    pub tree_swap_bytes: Option<u64>,
    /// Sum of USS: what would be freed if each process ended alone. Null in samples that walk no memory.
    pub tree_uss_bytes: Option<u64>,
    /// What was used since the sample before; null in the first.
    #[serde(default)]
    pub used: Option<Usage>,
}

/// What processes used between two samples. One that was not in the earlier of the two counts with all it has used, because it
/// started in between; what one used between its last sample and its end is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time, seconds.
    pub cpu_seconds: f64,
    /// Switches of main threads that they did not ask for.
    #[serde(default)]
    pub involuntary_switches: Option<u64>,
    /// Faults that waited for a disk.
    #[serde(default)]
    pub major_faults: Option<u64>,
    /// Faults that waited for no disk.
    #[serde(default)]
    pub minor_faults: Option<u64>,
    /// Bytes read from storage.
    #[serde(default)]
    pub read_bytes: Option<u64>,
    /// Between the two samples, seconds by the monotonic clock.
    pub seconds: f64,
    /// Switches of main threads that they asked for.
    #[serde(default)]
    pub voluntary_switches: Option<u64>,
    /// Bytes written to storage.
    #[serde(default)]
    pub written_bytes: Option<u64>,
}

impl Reading {
    /// Returns what `sample` says; `before` is the one before it, `ticks` are the clock ticks of a second, `stage` names what
    /// is going on.
    pub fn of(sample: &Sample, before: Option<&Sample>, ticks: u64, stage: String) -> Self {
        let has_ended = |process: &ProcessSample| matches!(process.state, 'Z' | 'X');
        let is_read = |process: &ProcessSample| process.rss_bytes.is_some() || has_ended(process);
        let all = sample.processes.len();
        let rss_processes = sample.processes.iter().filter(|it| is_read(it)).count();
        let (pss_processes, tree_pss_bytes) = sample.sum(|it| it.pss_bytes);
        let ended = sample.processes.iter().filter(|it| has_ended(it)).count();
        let (_, tree_rss_bytes) = sample.sum(|it| it.rss_bytes);
        let root = |it: &ProcessSample| it.identity == sample.root;
        let (_, parent_rss_bytes) = sample.sum(|it| it.rss_bytes.filter(|_| root(it)));
        let (cpu_processes, cpu_percent) = cpu(sample, before, ticks);
        Self {
            at: sample.at,
            cgroup: sample.cgroup.clone(),
            children_rss_bytes: tree_rss_bytes.map(|tree| tree - parent_rss_bytes.unwrap_or(0)),
            cpu_percent,
            cpu_processes,
            elapsed_seconds: sample.elapsed_seconds,
            gpus: sample.gpus.clone(),
            machine: sample.machine.clone(),
            machine_cpu_percent: before.and_then(|it| machine_cpu(&sample.machine, &it.machine)),
            parent_rss_bytes,
            process_count: count(all),
            pss_complete: pss_processes > 0 && pss_processes + ended == all,
            pss_processes: count(pss_processes),
            rss_complete: rss_processes == all,
            rss_processes: count(rss_processes),
            stage,
            thread_count: sample.sum(|it| Some(it.threads)).1.unwrap_or(0),
            tree_physical_footprint_bytes: None,
            tree_pss_bytes,
            tree_rss_bytes,
            tree_swap_bytes: sample.sum(|it| it.swap_bytes).1,
            tree_uss_bytes: sample.sum(|it| it.uss_bytes).1,
            used: before.map(|before| used(sample, before, ticks)),
        }
    }
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Returns the CPU time of `process` since the sample `before`, clock ticks; nothing where it was not in that.
pub(crate) fn cpu_ticks(process: &ProcessSample, before: &Sample) -> Option<u64> {
    let known = earlier(process.identity, before)?;
    let (now, then) = (
        process.utime_ticks + process.stime_ticks,
        known.utime_ticks + known.stime_ticks,
    );
    Some(now.saturating_sub(then))
}

fn earlier(identity: ProcessId, before: &Sample) -> Option<&ProcessSample> {
    let at = before
        .processes
        .binary_search_by_key(&identity, |it| it.identity);
    Some(&before.processes[at.ok()?])
}

fn cpu(sample: &Sample, before: Option<&Sample>, ticks: u64) -> (u64, Option<f64>) {
    let Some(before) = before else {
        return (0, None);
    };
    let (processes, used) = sample.sum(|it| cpu_ticks(it, before));
    let seconds = sample.elapsed_seconds - before.elapsed_seconds;
    let percent = used.and_then(|used| percent(seconds_of(used, ticks), seconds));
    (count(processes), percent)
}

/// Returns `part` in percent of `whole`, to a tenth.
pub(crate) fn percent(part: f64, whole: f64) -> Option<f64> {
    let percent = (part / whole * 1e3).round() / 10.0;
    percent.is_finite().then_some(percent)
}

/// Returns clock ticks in seconds.
#[expect(clippy::cast_precision_loss, reason = "no process uses 2^53 ticks")]
pub(crate) fn seconds_of(used: u64, ticks: u64) -> f64 {
    used as f64 / ticks as f64
}

fn machine_cpu(now: &MachineSample, before: &MachineSample) -> Option<f64> {
    let seconds = now.uptime_seconds? - before.uptime_seconds?;
    let idle = now.idle_seconds? - before.idle_seconds?;
    let all = seconds * f64::from(now.cpu_count?);
    Some(percent(all - idle, all)?.clamp(0.0, 100.0))
}

fn used(sample: &Sample, before: &Sample, ticks: u64) -> Usage {
    let earlier: BTreeMap<ProcessId, &ProcessSample> = before
        .processes
        .iter()
        .map(|it| (it.identity, it))
        .collect();
    let more = |of: fn(&ProcessSample) -> Option<u64>| {
        let of_process = |process: &ProcessSample| {
            let now = of(process)?;
            // One that could not be read then is no newcomer: what it used since is not known.
            match earlier.get(&process.identity) {
                Some(known) => Some(now.saturating_sub(of(known)?)),
                None => Some(now),
            }
        };
        sample.sum(of_process).1
    };
    let cpu = more(|it| Some(it.utime_ticks + it.stime_ticks));
    Usage {
        cpu_seconds: seconds_of(cpu.unwrap_or(0), ticks),
        involuntary_switches: more(|it| it.involuntary_switches),
        major_faults: more(|it| it.major_faults),
        minor_faults: more(|it| it.minor_faults),
        read_bytes: more(|it| it.read_bytes),
        seconds: sample.elapsed_seconds - before.elapsed_seconds,
        voluntary_switches: more(|it| it.voluntary_switches),
        written_bytes: more(|it| it.written_bytes),
    }
}

/// Returns the sum of what is known.
pub(crate) fn known_sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).reduce(u64::saturating_add)
}
