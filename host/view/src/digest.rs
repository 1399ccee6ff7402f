//! A snapshot in short: what the timeline and the matrix of ranks show of it.

use std::collections::BTreeMap;

use diagnose::{main_trace, rank_processes, telling_frame};
use model::{Finding, Pressure, Process, Severity, Snapshot};
use serde::Serialize;

/// What is kept of a snapshot after it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Digest {
    /// CPU time that the processes which live have taken so far, seconds.
    pub(crate) cpu_s: Option<f64>,
    /// Errors and warnings, a few.
    pub(crate) findings: Vec<Brief>,
    /// How many things could not be read.
    pub(crate) gaps: u64,
    /// The mean of all GPUs, percent.
    pub(crate) gpu_percent: Option<f64>,
    /// How long after it the next one was to come, seconds.
    pub(crate) interval_s: Option<f64>,
    /// The tightest memory limit.
    pub(crate) memory_limit_bytes: Option<u64>,
    /// Memory: of the cgroup with the limit, else the sum of RSS.
    pub(crate) memory_bytes: Option<u64>,
    /// Percent of the last ten seconds: processor, storage and memory, of the task's cgroup, else of the machine.
    pub(crate) pressure: [Option<f64>; 3],
    pub(crate) processes: u64,
    /// By number.
    pub(crate) ranks: BTreeMap<u64, RankDigest>,
    /// Time that the quota has held threads back so far, microseconds.
    pub(crate) throttled_usec: Option<u64>,
}

/// A finding in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Brief {
    pub(crate) kind: String,
    pub(crate) message: String,
    pub(crate) severity: Severity,
}

/// Where a rank is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RankDigest {
    pub(crate) pid: i32,
    /// The line of the job's own code, else what the kernel says; one text for all ranks at one place.
    pub(crate) place: Box<str>,
    /// The first number that its main thread counts.
    pub(crate) step: Option<f64>,
}

/// Findings that are kept of a snapshot.
const FINDINGS: usize = 4;
/// Characters of a text that are kept.
const TEXT: usize = 160;

impl Digest {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let limits = snapshot.cgroup.limits.as_ref();
        let memory = limits.and_then(|limits| limits.memory.as_ref());
        let memory_limit_bytes = memory.and_then(|memory| memory.limit_bytes.number());
        let with_limit = memory.filter(|_| memory_limit_bytes.is_some());
        Self {
            cpu_s: cpu_s(snapshot),
            findings: findings(&snapshot.findings),
            gaps: snapshot.gaps.iter().map(|gap| u64::from(gap.count)).sum(),
            gpu_percent: gpus(snapshot),
            interval_s: snapshot.capture.interval_s,
            memory_limit_bytes,
            memory_bytes: with_limit
                .and_then(|memory| memory.usage_bytes)
                .or_else(|| resident(snapshot)),
            pressure: ["cpu", "io", "memory"].map(|resource| pressure(snapshot, resource)),
            processes: snapshot.processes.len() as u64,
            ranks: rank_processes(snapshot)
                .into_iter()
                .map(|(rank, process)| (rank, rank_digest(process)))
                .collect(),
            throttled_usec: limits
                .and_then(|limits| limits.cpu.as_ref())
                .and_then(|cpu| cpu.throttled_usec),
        }
    }
}

fn findings(findings: &[Finding]) -> Vec<Brief> {
    let mut told: Vec<&Finding> = findings
        .iter()
        .filter(|finding| finding.severity > Severity::Info)
        .collect();
    told.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let brief = |finding: &&Finding| Brief {
        kind: short(&finding.kind),
        message: short(&finding.message),
        severity: finding.severity,
    };
    told.iter().take(FINDINGS).map(brief).collect()
}

fn resident(snapshot: &Snapshot) -> Option<u64> {
    let memory = snapshot.processes.iter();
    let memory = memory.filter_map(|process| Some(process.memory.as_ref()?.rss_bytes));
    memory.reduce(u64::saturating_add)
}

fn cpu_s(snapshot: &Snapshot) -> Option<f64> {
    let ticks = |process: &Process| {
        let facts = &process.proc;
        facts.utime_ticks?.checked_add(facts.stime_ticks?)
    };
    let ticks = snapshot.processes.iter().filter_map(ticks);
    let ticks = ticks.reduce(u64::saturating_add)?;
    let second = u32::try_from(snapshot.machine.clock_ticks_per_second).ok()?;
    #[expect(clippy::cast_precision_loss, reason = "a curve on a screen")]
    let ticks = ticks as f64;
    (second > 0).then(|| ticks / f64::from(second))
}

fn gpus(snapshot: &Snapshot) -> Option<f64> {
    let busy = snapshot.machine.gpus.iter();
    let busy: Vec<f64> = busy
        .filter_map(|gpu| gpu.utilization_percent.map(f64::from))
        .collect();
    let count = f64::from(u32::try_from(busy.len()).ok()?);
    (count > 0.0).then(|| busy.iter().sum::<f64>() / count)
}

fn pressure(snapshot: &Snapshot, resource: &str) -> Option<f64> {
    let own = snapshot.cgroup.chain.first();
    let own = own.and_then(|level| level.pressure.get(resource));
    let of = |pressure: &Pressure| pressure.some.map(|some| some.avg10_percent);
    own.and_then(of)
        .or_else(|| snapshot.machine.pressure.get(resource).and_then(of))
}

fn rank_digest(process: &Process) -> RankDigest {
    let main = u64::try_from(process.pid).ok();
    let step = process
        .steps
        .iter()
        .find(|step| step.thread_id.is_none() || step.thread_id == main);
    RankDigest {
        pid: process.pid,
        place: place(process).into(),
        step: step.and_then(|step| step.value.as_f64()),
    }
}

/// Where the main thread of a process is: `function (file:line)`, else what the kernel says.
pub(crate) fn place(process: &Process) -> String {
    if matches!(process.state, 'Z' | 'X') {
        return "ended".to_owned();
    }
    let frames = main_trace(process).map(|trace| trace.frames.as_slice());
    if let Some(frame) = frames.and_then(telling_frame) {
        let file = frame.filename.rsplit('/').next().unwrap_or(&frame.filename);
        return short(&format!("{} ({file}:{})", frame.name, frame.line));
    }
    match process.proc.wchan.as_deref() {
        Some(function) if function != "0" => short(&format!("kernel: {function}")),
        _ if process.state == 'R' => "running, no stack".to_owned(),
        _ => "no stack".to_owned(),
    }
}

/// The beginning of a text, without control characters.
pub(crate) fn short(text: &str) -> String {
    text.chars()
        .map(|it| if it.is_control() { '\u{fffd}' } else { it })
        .take(TEXT)
        .collect()
}
