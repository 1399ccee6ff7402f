//! A suspect rank beside its closest healthy twin: only what differs. What is alike explains nothing.

mod counters;
mod environment;

use std::collections::BTreeSet;

use model::{Frame, Process, ProcessId, SharedFrame, Snapshot, scheduling_words};
use serde::Serialize;

use crate::case::{Case, Fate, History, Terms, main_thread, trace_of};
use crate::python::{same_frame, telling_frame};
use crate::verdict::{Evidence, Verdict, Victim};

/// Differences that are told.
const MOST: usize = 24;
/// A suspect and its twin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Twin {
    /// The suspect.
    pub suspect: Victim,
    /// The rank that it is compared with: of its group, not to blame, on its node where there is one, the nearest by rank.
    pub twin: Victim,
    /// What differs, the stack first.
    pub differences: Vec<Difference>,
}

/// One thing in which they differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// What: `stack`, `step`, `wait`, `state`, `read and written`, an environment variable and the like.
    pub what: String,
    /// How it is with the suspect.
    pub suspect: String,
    /// How it is with the twin.
    pub twin: String,
    /// The values, of the suspect and of the twin, as far as there are any.
    pub evidence: Vec<Evidence>,
}

/// What is asked of one of the two.
struct Side<'a> {
    actor: usize,
    process: &'a Process,
    snapshot: &'a Snapshot,
    /// The same process at the beginning of the window.
    before: Option<&'a Process>,
    frames: &'a [SharedFrame],
}

/// Asks something of one of the two.
type Ask<'f, 's> = &'f dyn Fn(&Side<'s>) -> Option<String>;
/// Returns how the rank that a verdict blames differs from its closest healthy twin; nothing where it blames no living rank,
/// or there is no other.
pub fn twin(histories: &[History<'_>], verdict: &Verdict) -> Option<Twin> {
    let culprit = verdict.culprit.as_ref()?;
    let case = Case::new(histories, &Terms::default())?;
    let identity: ProcessId = culprit.process.parse().ok()?;
    let is_it = |actor: usize| {
        let it = &case.actors[actor];
        it.process.identity == identity && case.node_of(actor).newest().task.node == culprit.node
    };
    let suspect = case.those(is_it).into_iter().next()?;
    let (twin, name) = (
        closest(&case, suspect, verdict)?,
        thread_name(&case, suspect, culprit.thread),
    );
    let (one, other) = (
        side(&case, suspect, name.as_deref()),
        side(&case, twin, name.as_deref()),
    );
    let mut differences = Vec::new();
    stack(&mut differences, &one, &other);
    facts(&mut differences, &case, &one, &other);
    counters::grown(&mut differences, &case, &one, &other);
    counters::held(&mut differences, &case, &one, &other);
    environment::variables(&mut differences, &case, &one, &other);
    differences.truncate(MOST);
    Some(Twin {
        suspect: case.victim(suspect),
        twin: case.victim(twin),
        differences,
    })
}

/// The nearest rank of the same group that is not to blame.
fn closest(case: &Case<'_>, suspect: usize, verdict: &Verdict) -> Option<usize> {
    let it = &case.actors[suspect];
    let rank = it.rank.filter(|_| it.is_rank)?;
    let waits = |actor: usize| verdict.victims.contains(&case.victim(actor));
    let others = case.alive().filter(|(actor, other)| {
        *actor != suspect && other.is_rank && other.group == it.group && other.fate == Fate::Alive
    });
    let nearest = others.min_by_key(|(actor, other)| {
        let apart = other.rank.map_or(u64::MAX, |other| other.abs_diff(rank));
        (!waits(*actor), other.node != it.node, apart, other.rank)
    });
    nearest
        .map(|(actor, _)| actor)
        .filter(|actor| waits(*actor))
}

/// The name of the thread that is to blame, where it is not the main one.
fn thread_name(case: &Case<'_>, actor: usize, thread: Option<i32>) -> Option<String> {
    let process = case.actors[actor].process;
    let thread = thread.filter(|tid| *tid != process.pid)?;
    trace_of(process, thread)?.thread_name.clone()
}

fn side<'a>(case: &Case<'a>, actor: usize, thread: Option<&str>) -> Side<'a> {
    let it = &case.actors[actor];
    let node = &case.nodes[it.node];
    let first = node.snapshots[node.window[0]];
    let mut earlier = first.processes.iter();
    let mut traces = it.process.pyspy.iter().flat_map(|stacks| &stacks.traces);
    let named = traces.find(|trace| thread.is_some() && trace.thread_name.as_deref() == thread);
    let trace = named.or_else(|| trace_of(it.process, it.process.pid));
    Side {
        actor,
        process: it.process,
        snapshot: node.newest(),
        before: earlier.find(|before| before.identity == it.process.identity),
        frames: trace.map_or(&[], |trace| trace.frames.as_slice()),
    }
}

/// Where their stacks part, below what they have in common.
fn stack(found: &mut Vec<Difference>, one: &Side<'_>, other: &Side<'_>) {
    let pairs = one.frames.iter().rev().zip(other.frames.iter().rev());
    let common = pairs.take_while(|(a, b)| same_frame(a, b)).count();
    if one.frames.is_empty() || (common == one.frames.len() && common == other.frames.len()) {
        return;
    }
    let below = |side: &Side<'_>| beyond(&side.frames[..side.frames.len() - common]);
    let under = one.frames.get(one.frames.len().wrapping_sub(common));
    let what = under.filter(|_| common > 0).map_or_else(
        || "stack".to_owned(),
        |frame| format!("stack below {}", label(frame)),
    );
    found.push(Difference {
        what,
        suspect: below(one),
        twin: below(other),
        evidence: Vec::new(),
    });
}

/// The frames that the other has not: the innermost, the one to show a person, and the one where they part.
fn beyond(frames: &[SharedFrame]) -> String {
    let telling = telling_frame(frames);
    let telling = frames
        .iter()
        .position(|frame| telling.is_some_and(|telling| same_frame(frame, telling)));
    let Some(last) = frames.len().checked_sub(1) else {
        return "nothing more".to_owned();
    };
    let shown: BTreeSet<usize> = [Some(0), telling, Some(last)]
        .into_iter()
        .flatten()
        .collect();
    let mut words = String::new();
    let mut next = 0;
    for index in shown {
        if index > 0 {
            words += if index == next { " < " } else { " < … < " };
        }
        words += &label(&frames[index]);
        next = index + 1;
    }
    words
}

fn label(frame: &Frame) -> String {
    let file = frame.filename.rsplit('/').next().unwrap_or_default();
    format!("{} ({file}:{})", frame.name, frame.line)
}

/// What they are at, and what they may use.
fn facts(found: &mut Vec<Difference>, case: &Case<'_>, one: &Side<'_>, other: &Side<'_>) {
    for (index, step) in one.process.steps.iter().enumerate() {
        let mut theirs = other.process.steps.iter();
        let Some(twin) = theirs.position(|other| other.is_of(step)) else {
            continue;
        };
        let values = (&step.value, &other.process.steps[twin].value);
        if values.0 != values.1 {
            let paths = (
                format!("steps/{index}/value"),
                format!("steps/{twin}/value"),
            );
            let said = (values.0.to_string(), values.1.to_string());
            tell(found, case, (one, other), &step.name, said, Some(paths));
        }
    }
    let call = |side: &Side<'_>| {
        let thread = main_thread(side.process)?;
        let call = thread.call.as_ref().map(|call| call.name.clone());
        Some(
            call.filter(|name| !name.is_empty())
                .unwrap_or_else(|| "runs".to_owned()),
        )
    };
    let state = |side: &Side<'_>| Some(side.process.state.to_string());
    let cpus = |side: &Side<'_>| side.process.proc.allowed_cpus.clone();
    let scheduling = |side: &Side<'_>| {
        let scheduling = side.process.proc.scheduling.as_ref()?;
        Some(scheduling_words(scheduling).unwrap_or_else(|| "as usual".to_owned()))
    };
    let cgroup = |side: &Side<'_>| Some(side.process.cgroup.join(" "));
    let program = |side: &Side<'_>| side.process.exe.clone();
    let threads = |side: &Side<'_>| Some(side.process.proc.threads.len().to_string());
    let asked: [(&str, Ask<'_, '_>, &str); 7] = [
        ("wait", &call, "wchan"),
        ("state", &state, "state"),
        ("allowed CPUs", &cpus, "proc/allowed_cpus"),
        ("scheduling", &scheduling, "proc/scheduling"),
        ("cgroup", &cgroup, "cgroup"),
        ("program", &program, "exe"),
        ("threads", &threads, ""),
    ];
    for (what, ask, path) in asked {
        if let (Some(suspect), Some(twin)) = (ask(one), ask(other))
            && suspect != twin
        {
            let paths = (!path.is_empty()).then(|| (path.to_owned(), path.to_owned()));
            tell(found, case, (one, other), what, (suspect, twin), paths);
        }
    }
}

/// Adds one difference with the values at these paths below either process.
fn tell(
    found: &mut Vec<Difference>,
    case: &Case<'_>,
    (one, other): (&Side<'_>, &Side<'_>),
    what: &str,
    (suspect, twin): (String, String),
    paths: Option<(String, String)>,
) {
    let cited =
        paths.map(|(mine, theirs)| [case.cite(one.actor, &mine), case.cite(other.actor, &theirs)]);
    found.push(Difference {
        what: what.to_owned(),
        suspect,
        twin,
        evidence: cited.into_iter().flatten().flatten().collect(),
    });
}
