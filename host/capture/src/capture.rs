//! Looks at each process once and puts everything into a snapshot. Never fails: what could not be read is a gap.

use std::thread;
use std::time::{Duration, Instant};

use model::{
    Capture, Gap, GapCode, Process, ProcessId, SCHEMA_VERSION, Snapshot, SnapshotId, Stacks, Task,
    Timestamp, Trigger,
};
use regex::Regex;

use crate::discover::Targets;
use crate::gaps::GapList;
use crate::image::Image;
use crate::machine::Machine;
use crate::proc::Reader;
use crate::process::Look;
use crate::python::Python;
use crate::redact::Redactor;
use crate::stacks::Wanted;
use crate::{cgroup, filesystem, ipc, machine_facts};

/// What stays the same from snapshot to snapshot.
#[derive(Clone, Debug)]
pub struct Options {
    /// The task.
    pub task: Task,
    /// The version of taskscope.
    pub collector_version: String,
    /// Echoed in the snapshot; never filters.
    pub focus_files: Vec<String>,
    /// Recorded for each process; never filters.
    pub process_pattern: Option<Regex>,
    /// Names of variables to keep beyond the built-in ones; one that ends in `*` is a prefix.
    pub environment: Vec<String>,
    /// Patterns of secrets beyond the built-in ones; where one has a group, only its first group is the secret.
    pub redact: Vec<Regex>,
}

/// When and why a snapshot is taken.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The number of the snapshot, from 0 over the attempt.
    pub sequence: u64,
    /// What caused it.
    pub trigger: Trigger,
    /// When the discovery of its targets began.
    pub now: Timestamp,
    /// The interval in force.
    pub interval: Option<Duration>,
    /// Cycles that were due since the previous snapshot and did not happen.
    pub missed_cycles: Option<u64>,
}

type StackResult = (ProcessId, Result<Option<Stacks>, Gap>);

/// Looks at `targets` and returns all that was seen.
pub fn capture(
    machine: &Machine,
    options: &Options,
    targets: &Targets,
    moment: &Moment,
) -> Snapshot {
    let mut reader = Reader::new();
    let mut gaps = GapList::of_machine();
    let images = machine.images.read(&machine.proc, &targets.processes);
    let wanted = wanted(&images);
    let blocked = blocked_stacks(&images);
    let deadline = Instant::now() + machine.stack_timeout;
    // Stacks take longest: they are read while we read the rest.
    let (mut snapshot, stacks) = thread::scope(|scope| {
        let stacks = scope.spawn(|| machine.stacks.read(&wanted, deadline));
        let mut look = Look {
            gaps: targets.gaps.clone(),
            machine,
            options,
            reader: &mut reader,
            redactor: Redactor::new(&options.redact),
        };
        let processes: Vec<Process> = images
            .into_iter()
            .filter_map(|image| look.process(targets.stats.get(&image.id)?, image))
            .collect();
        let found = look.gaps;
        let snapshot = Snapshot {
            annotations: Vec::new(),
            capture: began(moment),
            cgroup: cgroup::read(machine, &targets.root_cgroup, &mut reader, &mut gaps),
            collector_version: options.collector_version.clone(),
            filesystem: filesystem::read(&machine.shared_memory, &mut gaps),
            findings: Vec::new(),
            focus_files: options.focus_files.clone(),
            gaps: found,
            ipc: ipc::of(&processes),
            machine: machine_facts::read(machine, &mut reader, &mut gaps),
            plugins: Vec::new(),
            processes,
            schema_version: SCHEMA_VERSION.to_owned(),
            scope: Some(targets.scope.clone()),
            task: options.task.clone(),
        };
        (snapshot, stacks.join())
    });
    let stacks = stacks.unwrap_or_else(|_| wanted.iter().map(broken).collect());
    snapshot.gaps.extend(blocked);
    attach(&mut snapshot, stacks);
    snapshot.gaps.extend(gaps.finish());
    complete(&mut snapshot.capture, targets.began.elapsed());
    snapshot
}

fn wanted(images: &[Image]) -> Vec<Wanted> {
    let readable = images
        .iter()
        .filter(|image| !image.is_blocked && image.python() != Python::No);
    readable
        .map(|image| Wanted {
            id: image.id,
            exe: image.exe_path(),
            certain: image.python() == Python::Certain,
        })
        .collect()
}

/// A reader of stacks would wait for the same lock that blocked the reader of the arguments.
fn blocked_stacks(images: &[Image]) -> Vec<Gap> {
    let blocked = images
        .iter()
        .filter(|image| image.is_blocked && image.python() != Python::No);
    blocked
        .map(|image| Gap::new("python_stack", GapCode::BlockedRead).of(image.id))
        .collect()
}

fn broken(wanted: &Wanted) -> StackResult {
    let gap = Gap::new("python_stack", GapCode::Failed).of(wanted.id);
    (
        wanted.id,
        Err(gap.with_detail("the reader of stacks panicked")),
    )
}

/// Puts stacks to their processes; those of a process that was thrown away go with it.
fn attach(snapshot: &mut Snapshot, stacks: Vec<StackResult>) {
    for (id, result) in stacks {
        let at = snapshot
            .processes
            .binary_search_by_key(&id, |process| process.identity);
        let Ok(at) = at else { continue };
        match result {
            Ok(stacks) => snapshot.processes[at].pyspy = stacks,
            Err(gap) => snapshot.gaps.push(gap),
        }
    }
}

fn began(moment: &Moment) -> Capture {
    Capture {
        completed_at: moment.now,
        cpu_ms: None,
        duration_ms: 0.0,
        id: SnapshotId {
            stamp: moment.now,
            sequence: moment.sequence,
        },
        interval_s: moment.interval.map(|interval| interval.as_secs_f64()),
        missed_cycles: moment.missed_cycles,
        sequence: moment.sequence,
        started_at: moment.now,
        trigger: Some(moment.trigger),
    }
}

fn complete(capture: &mut Capture, duration: Duration) {
    capture.completed_at = capture.started_at.after(duration);
    // To the microsecond, as the stamps are.
    capture.duration_ms = (duration.as_secs_f64() * 1e6).round() / 1e3;
}
