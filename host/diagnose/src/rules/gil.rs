//! One thread keeps the interpreter to itself.

use model::{Process, Trace};

use super::Rule;
use crate::case::{PATIENCE, thread_index, trace_of};
use crate::motion::thread_ran;
use crate::python;
use crate::scene::{Scene, Stall};
use crate::verdict::{Cause, State, Verdict};
use crate::wait::{self, Wait};
use crate::words;

pub(super) const RULE: Rule = Rule {
    name: "gil-held",
    needs: "Python stacks with who holds the interpreter lock, in three snapshots or more; what the other threads wait for",
    proves: "the same thread held the lock at the same line in every snapshot, for five and a half intervals of processor time or seven in one wait, while another waited for it all the time",
    refuted_by: "another thread held it in between, the holder did something else than to run, or nobody wants it",
    holds,
};

fn holds(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    if let Stall::Moves(_) | Stall::Ended | Stall::Short = scene.stall {
        scene.must_stand()?;
    }
    let case = &scene.case;
    for (index, actor) in case.alive() {
        let node = case.node_of(index);
        if !node.is_patient() {
            continue;
        }
        let views: Vec<&Process> = node
            .window
            .iter()
            .filter_map(|position| {
                let mut processes = node.snapshots[*position].processes.iter();
                processes.find(|process| process.identity == actor.process.identity)
            })
            .collect();
        // A look at the stacks may have failed; as many are needed as prove a stand.
        let seen: Vec<&Process> = views
            .iter()
            .copied()
            .filter(|process| process.pyspy.is_some())
            .collect();
        let is_seen_now = views.last().is_some_and(|now| now.pyspy.is_some());
        if views.len() < node.window.len() || seen.len() < PATIENCE || !is_seen_now {
            continue;
        }
        let views = seen;
        let is_long = actor.seen.is_some_and(|seen| seen.keeps_lock());
        let Some(holder) = holder(&views).filter(|_| is_long) else {
            continue;
        };
        let Some(wanting) = wanting(&views, holder) else {
            continue;
        };
        return Ok(vec![found(scene, index, holder, wanting)]);
    }
    Err(
        "no thread held the interpreter lock at one line all the time while another wanted it"
            .to_owned(),
    )
}

fn found(scene: &Scene<'_>, index: usize, holder: i32, wanting: i32) -> Verdict {
    let case = &scene.case;
    let process = case.actors[index].process;
    let culprit = case.culprit(index, Some(holder));
    let name = |tid| {
        let name = trace_of(process, tid).and_then(|trace| trace.thread_name.clone());
        name.map_or_else(
            || format!("thread {tid}"),
            |name| format!("thread {tid} ({})", words::safe(&name)),
        )
    };
    let summary = format!(
        "{} of {} has kept the interpreter lock{}; {} waits for it and cannot run.",
        name(holder),
        words::who(case, index),
        words::at(&culprit),
        name(wanting),
    );
    let victims = scene.victims(&[index]);
    let traces = process.pyspy.iter().flat_map(|stacks| &stacks.traces);
    let trace = traces
        .enumerate()
        .find(|(_, trace)| trace.owns_gil)
        .map(|(index, _)| index);
    let mut evidence = Vec::new();
    if let Some(trace) = trace {
        for key in ["owns_gil", "frames/0/line"] {
            evidence.extend(case.cite(index, &format!("pyspy/traces/{trace}/{key}")));
        }
    }
    for tid in [holder, wanting] {
        if let Some(thread) = thread_index(process, tid) {
            evidence.extend(case.cite(index, &format!("proc/threads/{thread}/schedstat")));
        }
    }
    let claim = scene
        .claim(State::Hung, Cause::GilHeld)
        .by_thread(index, Some(holder));
    claim.holding_up(&victims).shown_by(evidence).say(summary)
}

/// The thread that held the lock at the same line in every view.
fn holder(views: &[&Process]) -> Option<i32> {
    let traces: Option<Vec<&Trace>> = views
        .iter()
        .map(|process| {
            process
                .pyspy
                .as_ref()?
                .traces
                .iter()
                .find(|trace| trace.owns_gil)
        })
        .collect();
    let traces = traces?;
    let first = traces.first()?;
    let same = |trace: &&Trace| {
        trace.os_thread_id == first.os_thread_id
            && !trace.frames.is_empty()
            && python::same_place(&trace.frames, &first.frames)
    };
    if !traces.iter().all(same) {
        return None;
    }
    i32::try_from(first.os_thread_id?).ok()
}

/// A Python thread that was in a futex with a timeout at the same address in every view and stood at the same line: taking
/// the interpreter lock, a thread waits 5 ms at a time (`CPython`, `Python/ceval_gil.c`).
fn wanting(views: &[&Process], holder: i32) -> Option<i32> {
    let last = views[views.len() - 1];
    let wants = |tid: i32| {
        let mut address = None;
        views.iter().all(|process| {
            let thread = thread_index(process, tid).map(|index| &process.proc.threads[index]);
            match thread.map(wait::of) {
                Some(Wait::Futex {
                    address: here,
                    is_timed: true,
                    is_private: true,
                }) => {
                    let first = address.get_or_insert_with(|| here.clone());
                    *first == here
                }
                // Between two waits of 5 ms it may be running, or be about to when it was asked for its call.
                Some(Wait::Running | Wait::Unknown) => true,
                _ => false,
            }
        }) && address.is_some()
    };
    let stays = |tid: i32| {
        let place = |process: &'_ Process| trace_of(process, tid).map(|trace| trace.frames.clone());
        let first = place(views[0]);
        views.iter().all(|process| match (&first, place(process)) {
            (Some(one), Some(other)) => python::same_place(one, &other),
            _ => false,
        })
    };
    let runs = |tid: i32| {
        let thread = |process: &'_ Process| {
            thread_index(process, tid).map(|index| process.proc.threads[index].clone())
        };
        match (thread(views[0]), thread(last)) {
            (Some(one), Some(other)) => thread_ran(&one, &other),
            _ => false,
        }
    };
    let threads = last.proc.threads.iter().map(|thread| thread.tid);
    threads
        .filter(|tid| *tid != holder)
        .find(|tid| stays(*tid) && wants(*tid) && runs(*tid))
}
