//! Whether everybody rests by design: waits for a time, for work, for a child or a process that does so.

use model::Ending;

use crate::case::{Actor, Fate, trace_of};
use crate::graph;
use crate::motion::{self, Motion};
use crate::prompt::is_at_prompt;
use crate::python::{self, Wants};
use crate::scene::Scene;
use crate::verdict::Evidence;
use crate::wait::{self, Wait};
use crate::words;

/// Says who rests and for what, and what shows it; nothing where somebody waits for something else.
pub(crate) fn rests(scene: &Scene<'_>) -> Option<(String, Vec<Evidence>)> {
    let case = &scene.case;
    let is_short = case.nodes.iter().any(|node| node.window.len() < 3);
    // That one ended well whose parent has not asked yet is nothing.
    let is_lost = |it: &Actor<'_>| it.fate == Fate::Zombie && it.ending() != Ending::Exited(0);
    let has_zombie = case.actors.iter().any(is_lost);
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
    known.extend(scene.graph.waiting_for_any(case, &resting));
    let meets = |index: &usize| {
        scene
            .groups
            .iter()
            .any(|group| group.meeting.contains(index))
    };
    let mut alive = case.alive();
    if !alive.all(|(index, _)| known.contains(&index) && (meets(&index) || !is_owed(scene, index)))
    {
        return None;
    }
    let how = match wait(&case.actors[first], scene) {
        Wait::Sleep | Wait::Poll { .. } => "waits for a time to pass",
        Wait::Running => "is at work now and then",
        Wait::Futex { is_timed: true, .. } => "waits for a time, or for a notice, to come",
        Wait::Futex { .. } => "waits for threads of its own, which wake now and then",
        Wait::Signal => "waits for a signal",
        Wait::Read { target, .. } if graph::is_terminal(&target) => "waits for somebody to type",
        Wait::Read { .. } => "waits for what the kernel tells it",
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
            edge.outside || edge.wakers.is_empty() || is_by_itself(scene, index)
        }),
        Wait::Poll { fds, is_timed } => {
            let first = fds.first();
            let target = first.and_then(|fd| graph::target_of(&scene.case, index, *fd));
            is_timed || scene.serves(index) || target.is_some_and(|it| is_told(actor, &it))
        }
        Wait::Read { target, .. } => {
            is_told(actor, &target) || hears_last(scene, index) || is_by_itself(scene, index)
        }
        Wait::Futex {
            is_private: true,
            is_timed,
            ..
        } => {
            scene.serves(index)
                || has_working_thread(scene, index)
                || (is_at_pool(actor) && scene.hope(index).is_some())
                || (is_timed && waits_for_notice(scene, index))
        }
        _ => false,
    }
}

/// Whether another thread of a process may give what it waits for, and nobody else.
fn is_by_itself(scene: &Scene<'_>, index: usize) -> bool {
    let edge = scene.graph.edge(index);
    edge.is_some_and(|edge| edge.wakers == [index]) && !scene.is_alone(index)
}

/// Whether a process reads from a connection that leads out of the task, over which something came after all that it said: news are
/// told to it as they come.
fn hears_last(scene: &Scene<'_>, index: usize) -> bool {
    let actor = &scene.case.actors[index];
    let is_outside = scene.graph.edge(index).is_some_and(|edge| edge.outside);
    let Wait::Read { target, .. } = &actor.wait else {
        return false;
    };
    let endpoint = scene.case.nodes[actor.node].endpoint(target);
    let tcp = endpoint.and_then(|(_, endpoint)| endpoint.tcp.as_ref());
    let has_heard = tcp.is_some_and(|tcp| {
        let is_any = tcp.bytes_received.is_some_and(|count| count > 0);
        let times = tcp.last_received_ms.zip(tcp.last_sent_ms);
        is_any && times.is_some_and(|(heard, said)| heard < said)
    });
    is_outside && has_heard
}

/// Descriptors by which the kernel tells what happens in the world: inotify(7), fanotify(7), `timerfd_create(2)`, signalfd(2); and what
/// others write to a terminal of its own (pts(4)).
const TOLD: [&str; 5] = [
    "/dev/ptmx",
    "anon_inode:inotify",
    "anon_inode:[fanotify]",
    "anon_inode:[timerfd]",
    "anon_inode:[signalfd]",
];

/// Whether a process reads what comes when it comes: news of the kernel, or the next line at Python's own prompt.
fn is_told(actor: &Actor<'_>, target: &str) -> bool {
    TOLD.contains(&target) || (graph::is_terminal(target) && is_at_prompt(actor.process))
}

/// Whether the main thread of a process waits for a result of a pool of processes.
fn is_at_pool(actor: &Actor<'_>) -> bool {
    let trace = python::main_trace(actor.process);
    trace.is_some_and(|trace| python::is_at_pool(&trace.frames))
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

/// Whether the main thread of a process waits for its own threads, one of which sleeps for a time, or runs or looks again and has run
/// meanwhile.
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
                Wait::Sleep => true,
                Wait::Futex { is_timed: true, .. } => ran(thread) || is_timer(process, thread.tid),
                Wait::Running | Wait::Poll { is_timed: true, .. } => ran(thread),
                _ => false,
            };
            thread.tid != process.pid && is_at_work
        })
}

/// Whether a thread is a `threading.Timer` whose time has not come.
fn is_timer(process: &model::Process, tid: i32) -> bool {
    let frames = trace_of(process, tid).map_or(&[][..], |trace| trace.frames.as_slice());
    let mut library = frames
        .iter()
        .take_while(|frame| python::is_standard_library(frame));
    library.any(|frame| {
        let name = frame.name.rsplit('.').next();
        name == Some("run") && frame.filename.ends_with("/threading.py")
    })
}
