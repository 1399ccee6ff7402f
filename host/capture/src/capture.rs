//! Looks at each process once and puts everything into a snapshot. Never fails: what could not be read is a gap.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use model::{
    Capture, Detail, Gap, GapCode, Ipc, NamespaceSet, ProcessId, SCHEMA_VERSION, Snapshot,
    SnapshotId, Task, Timestamp, Trigger,
};
use regex::Regex;

use crate::cost::CpuClocks;
use crate::discover::Targets;
use crate::gpu::GpuLook;
use crate::image::{Asked, Image};
use crate::machine::Machine;
use crate::proc::reader::open_process;
use crate::proc::{Reader, Stat, namespaces};
use crate::process::Look;
use crate::process_facts::NamespaceTable;
use crate::pulse;
use crate::python::Python;
use crate::recall::{StackPlan, StackResult};
use crate::redact::Redactor;
use crate::stacks::{Numbers, Read, Wanted};
use crate::turns::Chosen;
use crate::{cgroup, filesystem, gpu, ipc, left_out, machine_facts, rights};

/// What stays the same from snapshot to snapshot.
#[derive(Clone, Debug)]
pub struct Options {
    /// The task.
    pub task: Task,
    /// The version of taskscope.
    pub collector_version: String,
    /// Echoed in the snapshot; never filters. `locals` are read in frames of these files: ends of paths, in which `*` and `**`
    /// stand for any part.
    pub focus_files: Vec<String>,
    /// Names of variables whose numbers are read from Python frames; none costs nothing.
    pub locals: Vec<String>,
    /// Recorded for each process; never filters.
    pub process_pattern: Option<Regex>,
    /// Names of variables to keep beyond the built-in ones; one that ends in `*` is a prefix.
    pub environment: Vec<String>,
    /// Of how many resident bytes a snapshot counts whose they are (PSS, USS), which costs time by the page; nothing: of none.
    pub shared_memory: Option<u64>,
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
    /// How much is looked at; what is left out is a gap `skipped` of each kind.
    pub detail: Detail,
    /// When the discovery of its targets began.
    pub now: Timestamp,
    /// The interval in force.
    pub interval: Option<Duration>,
    /// Cycles that were due since the previous snapshot and did not happen.
    pub missed_cycles: Option<u64>,
}

/// Looks at `targets` and returns all that was seen.
pub fn capture(
    machine: &Machine,
    options: &Options,
    targets: &Targets,
    moment: &Moment,
) -> Snapshot {
    let mut reader = Reader::new();
    let (images, later) = images(machine, options, targets, moment.detail);
    let mut gaps = left_out::gaps(moment.detail, options, &images);
    let blocked = blocked_stacks(&images);
    let mut recalled = machine.recall.take(&targets.processes);
    let pulses = pulse::read(&machine.proc, &targets.processes, &mut reader);
    let plan = StackPlan::new(wanted(&images, moment.detail), &pulses, &recalled);
    // What may take long is read while we read the rest: stacks, and GPUs.
    let (mut snapshot, stacks, gpus) = thread::scope(|scope| {
        let stacks = scope.spawn(|| read_stacks(machine, options, &plan));
        let gpus = scope.spawn(|| machine.gpus.as_ref()?.read(&machine.proc, moment.now));
        let look = Look {
            detail: moment.detail,
            gaps: targets.gaps.clone(),
            later,
            machine,
            namespaces: NamespaceTable::new(our_namespaces(machine)),
            now: moment.now,
            options,
            pulses,
            reader: &mut reader,
            recalled: &mut recalled,
            redactor: Redactor::new(&options.redact),
        };
        let (mut processes, namespaces, mut found) = look.processes(images, &targets.stats);
        let mut ipc = Ipc::default();
        if moment.detail < Detail::WithoutConnections {
            ipc = ipc::read(machine, &mut processes, &mut reader, &mut found, &mut gaps);
        }
        let root = (targets.scope.root, processes.as_slice());
        let filesystem = filesystem::read(machine, root, &mut gaps, &mut found);
        let snapshot = Snapshot {
            annotations: Vec::new(),
            capture: began(moment),
            cgroup: cgroup::of_processes(machine, targets, &processes, &mut reader, &mut gaps),
            collector_version: options.collector_version.clone(),
            filesystem,
            findings: Vec::new(),
            focus_files: options.focus_files.clone(),
            gaps: found,
            ipc,
            machine: machine_facts::read(machine, &mut reader, &mut gaps),
            namespaces,
            plugins: Vec::new(),
            processes,
            schema_version: SCHEMA_VERSION.to_owned(),
            scope: Some(targets.scope.clone()),
            task: options.task.clone(),
        };
        (snapshot, stacks.join(), gpus.join())
    });
    let stacks = stacks.unwrap_or_else(|_| plan.wanted.iter().map(broken).collect());
    snapshot.gaps.extend(blocked);
    let stacks = plan.finish(stacks, &mut recalled, moment.now);
    attach(&mut snapshot, stacks);
    machine.recall.put(recalled);
    let gpus = gpus.unwrap_or_else(|_| Some(GpuLook::broken()));
    machine_facts::put_gpus(&mut snapshot, gpus, &mut gaps);
    snapshot.gaps.extend(gaps.finish());
    complete(&mut snapshot, machine, options, targets);
    snapshot
}

/// Reads what program each process runs; with the gaps of those whose shared memory is not counted.
fn images(
    machine: &Machine,
    options: &Options,
    targets: &Targets,
    detail: Detail,
) -> (Vec<Image>, BTreeMap<ProcessId, Gap>) {
    machine.sights.keep(&targets.processes);
    machine.execs.keep(&targets.processes);
    let Chosen { now, later } = match detail {
        Detail::Full => shared_memory(machine, options, targets),
        _ => Chosen::default(),
    };
    let asked = Asked {
        known: machine.sights.known(),
        names: options.environment.clone(),
        rankless: machine.sights.rankless(),
        rollups: now,
    };
    let Machine {
        images,
        memory,
        proc,
        ..
    } = machine;
    let images = images.read(memory, proc, &targets.processes, &asked);
    (images, later)
}

/// Chooses whose shared memory is counted, by what was resident when the processes were found.
fn shared_memory(machine: &Machine, options: &Options, targets: &Targets) -> Chosen {
    let Some(budget) = options.shared_memory else {
        return Chosen::default();
    };
    let resident = |stat: &Stat| Some(stat.rss_pages?.saturating_mul(machine.page_size_bytes));
    let processes = targets
        .stats
        .iter()
        .filter_map(|(&id, stat)| Some((id, resident(stat)?)))
        .filter(|&(_, resident)| resident > 0);
    machine.turns.choose(&processes.collect::<Vec<_>>(), budget)
}

fn our_namespaces(machine: &Machine) -> Option<NamespaceSet> {
    let own = open_process(&machine.proc, machine.own_pid()?).ok()?;
    namespaces::read(own.as_fd(), "ns").ok()
}

fn wanted(images: &[Image], detail: Detail) -> Vec<Wanted> {
    if detail >= Detail::WithoutPythonStacks {
        return Vec::new();
    }
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

fn read_stacks(machine: &Machine, options: &Options, plan: &StackPlan) -> Vec<StackResult> {
    let deadline = Instant::now() + machine.stack_timeout;
    let numbers = Numbers {
        focus: options.focus_files.clone(),
        locals: options.locals.clone(),
    };
    let stacks = &machine.stacks;
    let mut read = stacks.read_and_keep(&plan.wanted, &plan.kept, &numbers, deadline);
    machine.recall.share_frames(&mut read);
    read
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
            Ok(read) => {
                if let Some(Read { stacks, steps }) = read {
                    snapshot.processes[at].pyspy = Some(stacks);
                    snapshot.processes[at].steps = steps;
                }
            }
            Err(gap) => snapshot.gaps.push(gap),
        }
    }
}

fn began(moment: &Moment) -> Capture {
    Capture {
        completed_at: moment.now,
        cpu_ms: None,
        duration_ms: 0.0,
        helper_count: None,
        id: SnapshotId {
            stamp: moment.now,
            sequence: moment.sequence,
        },
        interval_s: moment.interval.map(|interval| interval.as_secs_f64()),
        missed_cycles: moment.missed_cycles,
        sequence: moment.sequence,
        spending: None,
        started_at: moment.now,
        trigger: Some(moment.trigger),
    }
}

/// Replaces secrets in paths and fills in what follows from the rest, last of all what it cost.
fn complete(snapshot: &mut Snapshot, machine: &Machine, options: &Options, targets: &Targets) {
    Redactor::new(&options.redact).paths(snapshot);
    machine_facts::complete(snapshot);
    rights::name_rights(&mut snapshot.gaps);
    snapshot.findings = gpu::findings(snapshot);
    let capture = &mut snapshot.capture;
    let helpers = machine.helper_pids();
    let used = CpuClocks::read(&helpers).since(&targets.clocks);
    let duration = targets.began.elapsed();
    capture.completed_at = capture.started_at.after(duration);
    capture.cpu_ms = used.map(milliseconds);
    capture.duration_ms = milliseconds(duration);
    capture.helper_count = u32::try_from(helpers.len()).ok();
}

/// To the microsecond, as the stamps are.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
