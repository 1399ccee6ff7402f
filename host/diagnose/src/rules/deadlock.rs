//! Each waits for another, in a circle: processes by what they hold, threads of one process by locks.

use model::Process;

use super::{MOST, Rule, ranks};
use crate::case::{thread_index, trace_of};
use crate::graph::EdgeKind;
use crate::motion::Motion;
use crate::python::{self, Wants};
use crate::scene::Scene;
use crate::signals::is_deaf;
use crate::verdict::{Cause, Evidence, State, Verdict};
use crate::wait::{self, Wait};
use crate::words;

pub(super) const CIRCLE: Rule = Rule {
    name: "deadlock",
    needs: "what processes wait for and who alone could end it, and that none of their threads ran in between",
    proves: "each of them waits for the next, and the last for the first",
    refuted_by: "a thread of one of them ran, or somebody else could end a wait",
    holds: circle,
};

pub(super) const THREADS: Rule = Rule {
    name: "deadlock-of-threads",
    needs: "all threads of a process with their futexes and stacks, over two intervals in which none that wants a lock ran",
    proves: "threads want locks that only threads of the same process can give, and none of those can run",
    refuted_by: "a thread of the process does something else",
    holds: threads,
};

fn circle(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    let still = |actor: &usize| {
        let edge = scene.graph.edge(*actor);
        let is_woken = edge.is_some_and(|edge| edge.kind == EdgeKind::Events)
            && !is_deaf(case.actors[*actor].process);
        case.actors[*actor].is_still_for(1) && scene.is_alone(*actor) && !is_woken
    };
    let mut known: Vec<usize> = Vec::new();
    let mut verdicts = Vec::new();
    for (start, _) in case.alive() {
        let Some(circle) = scene.graph.circle(start) else {
            continue;
        };
        let kinds = |kind: EdgeKind| {
            circle
                .iter()
                .any(|it| scene.graph.edge(*it).is_some_and(|edge| edge.kind == kind))
        };
        let own_pipe = circle.len() == 1 && kinds(EdgeKind::PipeRead);
        let is_known = known.contains(&start);
        let is_full = kinds(EdgeKind::PipeWrite) || kinds(EdgeKind::SocketWrite);
        // Of locks in shared memory, who is gone may be the one to blame: `crashed`, then `deadlock-of-processes`.
        let is_shared = kinds(EdgeKind::Shared);
        if is_known || own_pipe || is_full || is_shared || !circle.iter().all(still) {
            continue;
        }
        if scene.must_matter_for_good(&circle).is_err() {
            continue;
        }
        known.extend(circle.iter().copied());
        verdicts.push(of_processes(scene, &circle));
    }
    if verdicts.is_empty() {
        return Err("no processes wait for each other in a circle".to_owned());
    }
    Ok(verdicts)
}

fn of_processes(scene: &Scene<'_>, circle: &[usize]) -> Verdict {
    let case = &scene.case;
    let culprit = circle[0];
    let how = |actor: usize| match scene.graph.edge(actor).map(|edge| edge.kind) {
        Some(EdgeKind::FileLock) => "for a file lock of",
        Some(EdgeKind::SocketRead) => "for an answer of",
        Some(EdgeKind::Child) => "for the end of",
        Some(EdgeKind::PipeRead) => "for data of",
        Some(EdgeKind::Connect) => "for a connection to",
        Some(EdgeKind::Events) => "for an event of",
        _ => "for",
    };
    let summary = if circle.len() == 1 {
        format!(
            "{} waits{} {} itself: nobody else can end that.",
            words::who(case, culprit),
            words::at_actor(case, culprit),
            how(culprit)
        )
    } else {
        let mut parts: Vec<String> = Vec::new();
        for (index, actor) in circle.iter().enumerate() {
            let next = circle[(index + 1) % circle.len()];
            parts.push(format!(
                "{}{} waits {} {}",
                words::who(case, *actor),
                words::at_actor(case, *actor),
                how(*actor),
                words::who(case, next)
            ));
        }
        format!("Deadlock: {}.", parts.join(", and "))
    };
    let edges = circle.iter().filter_map(|actor| scene.graph.edge(*actor));
    let evidence: Vec<Evidence> = edges
        .flat_map(|edge| edge.evidence.clone())
        .take(24)
        .collect();
    let standing = scene.standing_of_some(circle);
    let victims = scene.victims(circle);
    let claim = scene
        .claim(State::Hung, Cause::Deadlock)
        .by(culprit)
        .holding_up(&victims);
    claim.shown_by(evidence).shown_by(standing).say(summary)
}

fn threads(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    let mut verdicts = Vec::new();
    for (index, actor) in case.alive() {
        if !actor.main_is_still_for(2)
            && matches!(actor.motion(), Motion::Advances(_) | Motion::Spins)
        {
            continue;
        }
        let Some((culprit, wanting)) = locked(scene, index) else {
            continue;
        };
        if scene.must_matter_for_good(&[index]).is_err() {
            continue;
        }
        verdicts.extend(ranks::held_up_by(scene, index));
        verdicts.push(of_threads(scene, index, culprit, &wanting));
        if verdicts.len() == MOST {
            break;
        }
    }
    if verdicts.is_empty() {
        return Err(
            "no process has threads that want locks which none of its threads can give".to_owned(),
        );
    }
    Ok(verdicts)
}

/// The thread to name and all that want a lock, where none of the process's threads can give it.
fn locked(scene: &Scene<'_>, index: usize) -> Option<(i32, Vec<i32>)> {
    let process = scene.case.actors[index].process;
    let mut wanting: Vec<(i32, &String)> = Vec::new();
    let mut noticing = Vec::new();
    let mut others = false;
    let waits: Vec<(i32, Wait)> = process
        .proc
        .threads
        .iter()
        .map(|thread| (thread.tid, wait::of(thread)))
        .collect();
    for (tid, wait) in &waits {
        let thread = &process.proc.threads[thread_index(process, *tid)?];
        let Wait::Futex {
            address,
            is_timed: false,
            is_private: true,
        } = wait
        else {
            others = true;
            continue;
        };
        // What ran within the window is not locked for good.
        if ran(scene, index, *tid) {
            others = true;
            continue;
        }
        match trace_of(process, thread.tid).and_then(|trace| python::wants(&trace.frames)) {
            Some(Wants::Lock) => wanting.push((*tid, address)),
            Some(Wants::Notice | Wants::Thread) => noticing.push(*tid),
            // A pool of native threads waits so for work. What a thread with a stack waits for in native code is not known.
            None => others |= trace_of(process, thread.tid).is_some(),
        }
    }
    // The main thread may have the highest number: the kernel begins anew.
    wanting.sort_unstable_by_key(|(tid, _)| (*tid != process.pid, *tid));
    let mut addresses: Vec<&String> = wanting.iter().map(|(_, address)| *address).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let tids: Vec<i32> = wanting.iter().map(|(tid, _)| *tid).collect();
    if addresses.len() >= 2 || (!tids.is_empty() && !others) {
        return Some((tids[0], tids));
    }
    // All wait for a notice, and nobody is left to give it. One thread alone may wait for a signal.
    let may_be_signalled = waits_for_anything(scene, index) && !is_deaf(process);
    let main_waits = noticing.contains(&process.pid) && !may_be_signalled;
    // A result, a queue: no thread, Python's or native, is there to give it.
    let is_alone =
        waits.len() == 1 && noticing.len() == 1 && (is_given(process) || is_deaf(process));
    let all = (noticing.len() >= 2 || is_alone)
        && !others
        && main_waits
        && scene.case.actors[index].children.is_empty();
    all.then(|| {
        let other = noticing.iter().copied().find(|tid| *tid != process.pid);
        (other.unwrap_or(process.pid), noticing)
    })
}

/// Whether the main thread waits for what another thread hands over: the result of a future, an item of a queue, the end of a
/// thread. `CPython`: `Lib/concurrent/futures/_base.py`, `Lib/queue.py`, `Lib/threading.py`.
fn is_given(process: &Process) -> bool {
    let frames = python::main_trace(process).map_or(&[][..], |trace| trace.frames.as_slice());
    let library = frames
        .iter()
        .take_while(|frame| python::is_standard_library(frame));
    let mut names = library.map(|frame| {
        let file = frame.filename.as_str();
        (frame.name.rsplit('.').next().unwrap_or_default(), file)
    });
    let is_named = names.any(|(name, file)| {
        (matches!(name, "get" | "put" | "join") && file.ends_with("/queue.py"))
            || (name == "_shutdown" && file.ends_with("/threading.py"))
    });
    is_named || python::is_at_result(frames)
}

/// Whether the main thread waits for an event that a signal may set.
fn waits_for_anything(scene: &Scene<'_>, index: usize) -> bool {
    let trace = python::main_trace(scene.case.actors[index].process);
    let frames = trace.map_or(&[][..], |trace| trace.frames.as_slice());
    let library = frames
        .iter()
        .take_while(|frame| python::is_standard_library(frame))
        .last();
    library.is_none_or(|frame| frame.name.starts_with("Event.") || frame.name == "wait")
}

fn ran(scene: &Scene<'_>, index: usize, tid: i32) -> bool {
    let node = scene.case.node_of(index);
    let identity = scene.case.actors[index].process.identity;
    let view = |position: usize| {
        let process = node.snapshots[position]
            .processes
            .iter()
            .find(|it| it.identity == identity)?;
        thread_index(process, tid).map(|thread| &process.proc.threads[thread])
    };
    // Two intervals: that nobody can give it is proved by what the others wait for.
    let before = node.newest_index().saturating_sub(2);
    match (view(before), view(node.newest_index())) {
        _ if node.snapshots.len() < 3 => true,
        (Some(before), Some(now)) => crate::motion::thread_ran(before, now),
        _ => true,
    }
}

fn of_threads(scene: &Scene<'_>, index: usize, culprit: i32, wanting: &[i32]) -> Verdict {
    let case = &scene.case;
    let process = case.actors[index].process;
    let summary = format!(
        "Deadlock in {}: {} wait{} for what only threads of the same process can give, and none of them can run.",
        words::who(case, index),
        listed(scene, index, wanting),
        if wanting.len() == 1 { "s" } else { "" },
    );
    let mut evidence: Vec<Evidence> = Vec::new();
    let futexes = &case.nodes[case.actors[index].node].newest().ipc.futexes;
    for tid in wanting.iter().take(8) {
        if let Some(thread) = thread_index(process, *tid) {
            for key in ["call/address", "unchanged_since", "schedstat"] {
                evidence.extend(case.cite(index, &format!("proc/threads/{thread}/{key}")));
            }
        }
        let futex = futexes
            .iter()
            .position(|it| it.identity == process.identity && it.waiters.contains(tid));
        if let Some(futex) = futex {
            evidence.extend(case.cite_newest(
                case.actors[index].node,
                &format!("/ipc/futexes/{futex}/waiters"),
            ));
        }
    }
    let victims = scene.victims(&[index]);
    let claim = scene
        .claim(State::Hung, Cause::Deadlock)
        .by_thread(index, Some(culprit));
    claim.holding_up(&victims).shown_by(evidence).say(summary)
}

/// So many places, and so many threads at one of them, are told.
const TOLD: usize = 4;

/// Threads of a process in words, those at one place together.
fn listed(scene: &Scene<'_>, index: usize, tids: &[i32]) -> String {
    let case = &scene.case;
    let mut places: Vec<(String, Vec<String>)> = Vec::new();
    for tid in tids {
        let place = words::at(&case.culprit(index, Some(*tid)));
        let trace = trace_of(case.actors[index].process, *tid);
        let name = trace.and_then(|trace| trace.thread_name.as_deref());
        let name = name.map_or_else(String::new, |name| format!(" ({})", words::safe(name)));
        let thread = format!("{tid}{name}");
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, threads)) => threads.push(thread),
            None => places.push((place, vec![thread])),
        }
    }
    let told = places.iter().take(TOLD).map(|(place, threads)| {
        let more = threads.len().saturating_sub(TOLD);
        let mut names: Vec<String> = threads.iter().take(TOLD).cloned().collect();
        names.extend((more > 0).then(|| format!("{more} more")));
        match names.as_slice() {
            [one] => format!("thread {one}{place}"),
            [first @ .., last] => format!("threads {} and {last}{place}", first.join(", ")),
            [] => String::new(),
        }
    });
    told.collect::<Vec<_>>().join(" and ")
}
