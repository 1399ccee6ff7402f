//! A lock was held by another thread at a fork, and the child's copy stays locked.

use model::{Process, SharedFrame};

use super::{Rule, ranks};
use crate::case::thread_index;
use crate::python::{self, Wants};
use crate::scene::Scene;
use crate::verdict::{Cause, Evidence, State, Verdict};
use crate::wait::{self, Wait};
use crate::words;

pub(super) const RULE: Rule = Rule {
    name: "inherited-lock",
    needs: "parent and child with stacks, threads and futexes; two intervals in which no thread of the child ran",
    proves: "a child that was forked from a process with several threads waits for a lock that no thread of its own can hold",
    refuted_by: "the child has become another program, or has a thread that could release the lock",
    holds,
};

fn holds(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    let mut verdicts = Vec::new();
    for (child, actor) in case.alive() {
        if !actor.is_still_for(2) {
            continue;
        }
        let Some(tid) = locked_alone(actor.process) else {
            continue;
        };
        let Some(parent) = forked_from(scene, child) else {
            continue;
        };
        if scene.must_matter_for_good(&[child]).is_err() {
            continue;
        }
        verdicts.extend(ranks::held_up_by(scene, child));
        let summary = format!(
            "{} waits{} for a lock that another thread of its parent, {}, held when it was forked: its own copy will never be released.",
            words::who(case, child),
            words::at(&case.culprit(child, Some(tid))),
            words::who(case, parent),
        );
        let mut evidence: Vec<Evidence> = scene.standing(child);
        if let Some(thread) = thread_index(actor.process, tid) {
            evidence.extend(case.cite(child, &format!("proc/threads/{thread}/call")));
        }
        evidence.extend(case.cite(child, "ppid"));
        // That the parent has, or had, another thread.
        evidence.extend(case.cite(parent, "proc/threads/1/tid"));
        let victims = scene.victims(&[child]);
        let claim = scene
            .claim(State::Hung, Cause::InheritedLock)
            .by_thread(child, Some(tid));
        verdicts.push(claim.holding_up(&victims).shown_by(evidence).say(summary));
    }
    if verdicts.is_empty() {
        return Err(
            "no forked child waits for a lock that none of its threads can hold".to_owned(),
        );
    }
    Ok(verdicts)
}

/// The thread that wants a lock, where every other thread of the process waits as well and for ever.
fn locked_alone(process: &Process) -> Option<i32> {
    let mut wanting = None;
    for thread in &process.proc.threads {
        let Wait::Futex {
            is_timed: false,
            is_private: true,
            ..
        } = wait::of(thread)
        else {
            return None;
        };
        let trace = crate::case::trace_of(process, thread.tid);
        match trace.and_then(|trace| python::wants(&trace.frames)) {
            Some(Wants::Lock) => wanting = wanting.or(Some(thread.tid)),
            // A process whose Python cannot be seen, with nothing but its first thread.
            None if process.pyspy.is_none()
                && process.proc.threads.len() == 1
                && process.python_candidate =>
            {
                wanting = Some(thread.tid);
            }
            None if crate::case::trace_of(process, thread.tid).is_some() => return None,
            Some(Wants::Notice | Wants::Thread) | None => {}
        }
    }
    wanting
}

/// The process that this one was forked from without becoming another program, where that has or had several threads.
fn forked_from(scene: &Scene<'_>, child: usize) -> Option<usize> {
    let case = &scene.case;
    let parent = case.actors[child].parent?;
    let (one, other) = (case.actors[child].process, case.actors[parent].process);
    let same_program = one.exe.is_some() && one.exe == other.exe && one.cmdline == other.cmdline;
    let threads = |process: &Process| process.proc.threads.len() > 1;
    let node = case.node_of(child);
    let had_threads = threads(other)
        || node
            .snapshots
            .iter()
            .flat_map(|it| &it.processes)
            .any(|it| it.identity == other.identity && threads(it));
    let frames = |process: &Process| -> Vec<SharedFrame> {
        let trace = python::main_trace(process);
        trace.map_or_else(Vec::new, |trace| trace.frames.clone())
    };
    // A forked child keeps the frames that its parent was in, the outermost at least.
    let (inner, outer) = (frames(one), frames(other));
    let same_start = match (inner.last(), outer.last()) {
        (Some(one), Some(other)) => one.name == other.name && one.filename == other.filename,
        // The thread that forked may be another than the main one, and a stack may be missing.
        _ => true,
    };
    let by_thread = inner
        .last()
        .is_some_and(|frame| frame.name.contains("_bootstrap"));
    (same_program && had_threads && (same_start || by_thread)).then_some(parent)
}
