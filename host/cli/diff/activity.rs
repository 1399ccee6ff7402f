//! What a process has done between two snapshots: differences of its counters.

use std::time::Duration;

use model::{Process, ProcessId, Snapshot, Step};
use serde::Serialize;

use super::per_second;
use crate::page::Notes;

/// What a process has done meanwhile. A number that one of the snapshots lacks, or that fell, is absent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Activity {
    /// Percent of one core.
    pub(crate) cpu_percent: Option<f64>,
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) identity: ProcessId,
    pub(crate) part: String,
    /// By calls (`rchar`), from wherever.
    pub(crate) read_bytes: Option<u64>,
    pub(crate) rss_bytes: Option<u64>,
    pub(crate) steps: Vec<StepGrowth>,
    /// How often its threads were given a CPU (`schedstat`), those alone that are in both.
    pub(crate) timeslices: Option<u64>,
    /// By calls (`wchar`), to wherever.
    pub(crate) written_bytes: Option<u64>,
}

/// How far a number that a frame holds has grown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct StepGrowth {
    pub(crate) from: serde_json::Number,
    pub(crate) name: String,
    /// Absent where it fell.
    pub(crate) per_second: Option<f64>,
    pub(crate) to: serde_json::Number,
}

impl Activity {
    /// Returns whether it did nothing at all, as far as was counted.
    pub(crate) fn is_none(&self) -> bool {
        let counted = [self.timeslices, self.read_bytes, self.written_bytes];
        counted.iter().flatten().all(|count| *count == 0)
            && self.cpu_seconds.is_none_or(|seconds| seconds == 0.0)
            && self.steps.iter().all(|step| step.from == step.to)
    }
}

pub(super) fn of(
    from: &Snapshot,
    to: &Snapshot,
    before: &Process,
    after: &Process,
    over: Option<Duration>,
) -> Activity {
    let ticks = |process: &Process| Some(process.proc.utime_ticks? + process.proc.stime_ticks?);
    let ticks = grown(ticks(before), ticks(after));
    let per_tick = to.machine.clock_ticks_per_second;
    #[expect(clippy::cast_precision_loss, reason = "a time has three digits")]
    let seconds = |ticks: u64| ticks as f64 / per_tick as f64;
    let cpu_seconds = ticks.filter(|_| per_tick > 0).map(seconds);
    let io = |key: &str| {
        let count = |process: &Process| process.proc.io.get(key)?.parse().ok();
        grown(count(before), count(after))
    };
    let part = Notes::of(to).part(after.identity);
    let earlier = || Notes::of(from).part(after.identity);
    Activity {
        cpu_percent: cpu_seconds
            .zip(over)
            .map(|(seconds, over)| 100.0 * seconds / over.as_secs_f64()),
        cpu_seconds,
        identity: after.identity,
        part: if part.is_empty() { earlier() } else { part },
        read_bytes: io("rchar"),
        rss_bytes: after.memory.as_ref().map(|memory| memory.rss_bytes),
        steps: steps(before, after, over),
        timeslices: timeslices(before, after),
        written_bytes: io("wchar"),
    }
}

fn grown(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after?.checked_sub(before?)
}

fn steps(before: &Process, after: &Process, over: Option<Duration>) -> Vec<StepGrowth> {
    let growth = |step: &Step| {
        let earlier = before.steps.iter().find(|other| other.is_of(step))?;
        Some(StepGrowth {
            from: earlier.value.clone(),
            name: step.name.clone(),
            per_second: over.and_then(|over| step.per_second(earlier, over)),
            to: step.value.clone(),
        })
    };
    after.steps.iter().filter_map(growth).collect()
}

fn timeslices(before: &Process, after: &Process) -> Option<u64> {
    let mut sum = None;
    for thread in &after.proc.threads {
        let mut threads = before.proc.threads.iter();
        let earlier = threads.find(|other| other.tid == thread.tid);
        let slices = |text: &Option<String>| text.as_ref()?.split(' ').nth(2)?.parse::<u64>().ok();
        let earlier = earlier.and_then(|earlier| slices(&earlier.schedstat));
        if let Some(more) = grown(earlier, slices(&thread.schedstat)) {
            sum = Some(sum.unwrap_or(0) + more);
        }
    }
    sum
}

/// Returns timeslices a second in words.
pub(super) fn rate(slices: u64, over: Option<Duration>) -> String {
    per_second(slices, over).map_or_else(|| slices.to_string(), |rate| format!("{rate:.1}/s"))
}
