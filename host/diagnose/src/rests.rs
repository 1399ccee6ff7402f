//! Whether everybody rests by design: waits for a time, for work, for a child or a process that does so.

use crate::case::{Actor, Fate};
use crate::motion::{self, Motion};
use crate::python::{self, Wants};
use crate::scene::Scene;
use crate::verdict::Evidence;
use crate::wait::{self, Wait};
use crate::words;

/// Says who rests and for what, and what shows it; nothing where somebody waits for something else.
pub(crate) fn rests(scene: &Scene<'_>) -> Option<(String, Vec<Evidence>)> {
    let case = &scene.case;
    let is_short = case.nodes.iter().any(|node| node.window.len() < 3);
    let has_zombie = case.actors.iter().any(|it| it.fate == Fate::Zombie);
    if is_short || has_zombie || scene.groups.iter().any(|group| group.is_stalled) {
        return None;
    }
    let resting = case.those(|actor| is_resting(scene, actor));
    let &first = resting.first()?;
    let mut known = resting.clone();
    for group in &scene.groups {
        if group.ranks.iter().any(|rank| resting.contains(rank)) {
            known.extend(&group.meeting);
        }
    }
    known.extend(scene.graph.waiting_for(case, &resting));
    let mut alive = case.alive();
    if !alive.all(|(index, _)| known.contains(&index) && !is_owed(scene, index)) {
        return None;
    }
    let how = match wait(&case.actors[first], scene) {
        Wait::Sleep | Wait::Poll { .. } => "waits for a time to pass",
        Wait::Running => "is at work now and then",
        Wait::Futex { is_timed: true, .. } => "waits for a time, or for a notice, to come",
        Wait::Futex { .. } => "waits for threads of its own, which wake now and then",
        Wait::Signal => "waits for a signal",
        _ => "waits for somebody to ask it for work",
    };
    let who = words::who(case, first);
    Some((format!("{who} {how}"), scene.standing(first)))
}

fn is_resting(scene: &Scene<'_>, index: usize) -> bool {
    let actor = &scene.case.actors[index];
    match wait(actor, scene) {
        Wait::Sleep | Wait::Accept { .. } | Wait::Signal => true,
        Wait::Running => actor.motion() == Motion::Idle,
        // Whoever only itself could wake needs a thread that may.
        Wait::Epoll { .. } => scene.graph.edge(index).is_none_or(|edge| {
            let by_itself = edge.wakers == [index] && !scene.is_alone(index);
            edge.outside || edge.wakers.is_empty() || by_itself
        }),
        Wait::Poll { is_timed, .. } => is_timed || scene.serves(index),
        Wait::Futex {
            is_private: true,
            is_timed,
            ..
        } => {
            scene.serves(index)
                || has_working_thread(scene, index)
                || (is_timed && waits_for_notice(scene, index))
        }
        _ => false,
    }
}

/// What a process waits for. One that was at work for a moment, or about to be, when it was looked at: what it waited for before.
fn wait(actor: &Actor<'_>, scene: &Scene<'_>) -> Wait {
    let is_clear = |wait: &Wait| !matches!(wait, Wait::Running | Wait::Unknown);
    let node = &scene.case.nodes[actor.node];
    let earlier = node.window.iter().rev().filter_map(|position| {
        let mut processes = node.snapshots[*position].processes.iter();
        processes.find(|it| it.identity == actor.process.identity)
    });
    let mut waits = earlier.map(|process| wait::of_main(process).0);
    if is_clear(&actor.wait) || !actor.main_ran() {
        return actor.wait.clone();
    }
    waits.find(is_clear).unwrap_or_else(|| actor.wait.clone())
}

/// Whether a process waits for an answer of a service: it has said something to it since it last heard something.
fn is_owed(scene: &Scene<'_>, index: usize) -> bool {
    let actor = &scene.case.actors[index];
    let Wait::Read { target, .. } = &actor.wait else {
        return false;
    };
    let endpoint = scene.case.nodes[actor.node].endpoint(target);
    let tcp = endpoint.and_then(|(_, endpoint)| endpoint.tcp.as_ref());
    // The beginning of a connection counts as one byte.
    let has_asked = tcp.is_some_and(|tcp| {
        tcp.bytes_acknowledged.is_some_and(|sent| sent > 1)
            && tcp.last_sent_ms < tcp.last_received_ms
    });
    has_asked && scene.is_idle(index)
}

/// Whether the main thread of a process waits for a notice for a while, and looked meanwhile whether it has come.
fn waits_for_notice(scene: &Scene<'_>, index: usize) -> bool {
    let actor = &scene.case.actors[index];
    let frames = python::main_trace(actor.process).map(|trace| trace.frames.as_slice());
    actor.main_ran() && frames.and_then(python::wants) == Some(Wants::Notice)
}

/// Whether the main thread of a process waits for its own threads, one of which waits for a time or runs now, and has run meanwhile.
fn has_working_thread(scene: &Scene<'_>, index: usize) -> bool {
    let actor = &scene.case.actors[index];
    let process = actor.process;
    let frames = python::main_trace(process).map(|trace| trace.frames.as_slice());
    let wants = frames.and_then(python::wants);
    let node = scene.case.node_of(index);
    let first = node.snapshots[node.window[0]].processes.iter();
    let before = first.clone().find(|it| it.identity == process.identity);
    let ran = |thread: &model::Thread| {
        let threads = before.map(|before| before.proc.threads.iter());
        let earlier = threads.and_then(|mut threads| threads.find(|it| it.tid == thread.tid));
        earlier.is_some_and(|earlier| motion::thread_ran(earlier, thread))
    };
    let mut threads = process.proc.threads.iter();
    matches!(wants, Some(Wants::Notice | Wants::Thread))
        && threads.any(|thread| {
            let is_at_work = match wait::of(thread) {
                Wait::Sleep | Wait::Running => true,
                Wait::Futex { is_timed, .. } | Wait::Poll { is_timed, .. } => is_timed,
                _ => false,
            };
            thread.tid != process.pid && is_at_work && ran(thread)
        })
}
