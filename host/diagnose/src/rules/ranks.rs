//! Ranks: one is gone, or is behind the others.

use super::Rule;
use crate::case::{Fate, thread_index};
use crate::ending::is_bad;
use crate::graph::EdgeKind;
use crate::group::{Group, Order, is_for_others};
use crate::motion::Motion;
use crate::python::{self, Wants};
use crate::scene::{Scene, Stall};
use crate::verdict::{Cause, Evidence, State, Verdict};
use crate::wait::Wait;
use crate::words;

pub(super) const DEAD: Rule = Rule {
    name: "rank-dead",
    needs: "which ranks there were and are, and that the others stand still",
    proves: "a rank has ended while the others of its group wait in a meeting",
    refuted_by: "the others get on without it",
    holds: dead,
};

pub(super) const BEHIND: Rule = Rule {
    name: "rank-behind",
    needs: "ranks, their stacks or waits, and their step clock, over three intervals",
    proves: "the others of the group wait, and these are less far or not in the meeting",
    refuted_by: "a rank of the group gets on",
    holds: behind,
};

fn dead(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    let mut verdicts = Vec::new();
    for group in scene
        .groups
        .iter()
        .filter(|group| group.is_stalled && !group.dead.is_empty())
    {
        let victims: Vec<usize> = group
            .ranks
            .iter()
            .copied()
            .filter(|rank| !group.dead.contains(rank))
            .collect();
        // The first to go is the cause, the others may have followed.
        let first = group
            .dead
            .iter()
            .copied()
            .min_by_key(|rank| (case.actors[*rank].snapshot, case.actors[*rank].rank));
        let (Some(culprit), Some(victim)) = (first, victims.first()) else {
            continue;
        };
        let end = case.actors[culprit].end;
        let around = end.map(|end| words::circumstance(end.obituary));
        let (cause, around) = around.unwrap_or_default();
        let mut others = group.dead.clone();
        others.retain(|rank| *rank != culprit);
        let others = match words::many(case, &others) {
            nobody if nobody.is_empty() => nobody,
            others => format!(", and {others} too"),
        };
        let summary = format!(
            "{} {}{around}{others}; {} wait{} for it{}.",
            words::who(case, culprit),
            words::ended(case, culprit),
            words::many(case, &victims),
            if victims.len() == 1 { "s" } else { "" },
            words::meeting(case, *victim),
        );
        let claim = scene
            .claim(State::Hung, cause.unwrap_or(Cause::RankDead))
            .by(culprit)
            .holding_up(&victims);
        let claim = claim
            .shown_by(case.ended(culprit))
            .shown_by(scene.standing(*victim));
        verdicts.push(claim.say(summary));
    }
    if verdicts.is_empty() {
        return Err("no rank has ended while others of its group wait".to_owned());
    }
    Ok(verdicts)
}

fn behind(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    if scene.groups.is_empty() {
        return Err("there are no ranks".to_owned());
    }
    let stalled = scene.groups.iter().filter(|group| group.is_stalled);
    let found: Vec<Verdict> = stalled
        .filter(|group| !group.behind.is_empty())
        .map(|group| one(scene, group))
        .collect();
    if found.is_empty() {
        let reason = match scene.stall {
            Stall::Stands => "no rank is behind the others",
            _ => "no group of ranks stands still",
        };
        return Err(reason.to_owned());
    }
    Ok(found)
}

/// Says that one rank alone holds up its group, where `actor`, at a dead end, is that rank or works for it: then nobody has to see
/// how long the others wait. Nothing where [`BEHIND`] says so.
pub(super) fn held_up_by(scene: &Scene<'_>, actor: usize) -> Option<Verdict> {
    let group = scene.held_up_by(actor).filter(|group| !group.is_stalled);
    group.map(|group| one(scene, group))
}

/// Says that the first of those that are behind holds the group up.
fn one(scene: &Scene<'_>, group: &Group) -> Verdict {
    let case = &scene.case;
    let mut behind = group.behind.iter().copied();
    let culprit = behind.find(|rank| !is_for_others(case, *rank));
    let culprit = culprit.unwrap_or(group.behind[0]);
    let victims: Vec<usize> = group
        .ranks
        .iter()
        .copied()
        .filter(|rank| case.actors[*rank].fate == Fate::Alive && !group.behind.contains(rank))
        .collect();
    let (thread, deeper, mut evidence) = root(scene, culprit);
    // Of a thread of its own that it waits for, `deeper` says where that is.
    let place = case.culprit(culprit, None);
    let (verb, example) = match group.behind.len() {
        1 => ("is", String::new()),
        _ => ("are", format!(", such as {}", words::who(case, culprit))),
    };
    let summary = format!(
        "{} {verb} behind{example}: {}{}{}{deeper}{}.",
        words::many(case, &group.behind),
        doing(scene, culprit),
        words::at(&place),
        calling(scene, group, culprit),
        waiting(scene, group, &victims),
    );
    if group.order == Some(Order::Step) {
        for rank in [culprit, victims[0]] {
            let steps = case.actors[rank].process.steps.len();
            evidence.extend(
                steps
                    .checked_sub(1)
                    .and_then(|last| case.cite(rank, &format!("steps/{last}/value"))),
            );
        }
    }
    let seen = victims
        .iter()
        .take(4)
        .flat_map(|victim| scene.standing(*victim));
    let claim = scene
        .claim(State::Hung, Cause::RankBehind)
        .by_thread(culprit, thread);
    claim
        .holding_up(&victims)
        .shown_by(evidence)
        .shown_by(seen)
        .say(summary)
}

/// Who waits, and in what.
fn waiting(scene: &Scene<'_>, group: &Group, victims: &[usize]) -> String {
    let case = &scene.case;
    victims.first().map_or_else(String::new, |victim| {
        let verb = if victims.len() == 1 { "waits" } else { "wait" };
        format!(
            "; {} {verb}{}{}",
            words::many(case, victims),
            words::meeting(case, *victim),
            calling(scene, group, *victim),
        )
    })
}

/// From where a rank calls the meeting that it is in, where those that are behind are in one too: it is another one, or another round
/// of it, and that tells which.
fn calling(scene: &Scene<'_>, group: &Group, rank: usize) -> String {
    let all_meet = group.behind.iter().all(|rank| group.meeting.contains(rank));
    let calling = all_meet.then(|| words::calling(&scene.case, rank));
    calling.unwrap_or_default()
}

fn doing(scene: &Scene<'_>, actor: usize) -> String {
    let it = &scene.case.actors[actor];
    if it.motion() == Motion::Spins {
        return "it uses a processor and turns".to_owned();
    }
    match &it.wait {
        Wait::OpenFifo { path } => format!(
            "it waits for somebody to open {} at the other end",
            words::safe(path)
        ),
        Wait::Connect { .. } => "its connection is not answered".to_owned(),
        Wait::Sleep => "it sleeps and looks again".to_owned(),
        Wait::Running => "it runs".to_owned(),
        Wait::FileLock => {
            let edge = scene.graph.edge(actor);
            let holder = edge.and_then(|edge| edge.wakers.iter().find(|it| **it != actor));
            let whose = holder.map_or_else(String::new, |holder| {
                format!(" that {} holds", words::who(&scene.case, *holder))
            });
            format!("it waits for a file lock{whose}")
        }
        _ => format!("it {}", words::call(it.process)),
    }
}

/// What a rank that is behind waits for itself: a thread of its own, or one of its workers. The thread to blame, more words,
/// and what shows it.
fn root(scene: &Scene<'_>, culprit: usize) -> (Option<i32>, String, Vec<Evidence>) {
    let case = &scene.case;
    let it = &case.actors[culprit];
    let mut evidence = scene.standing(culprit);
    if let Some(thread) = thread_index(it.process, it.process.pid) {
        let call = format!("proc/threads/{thread}/call");
        evidence.extend(case.cite(culprit, &call));
    }
    if let Some(tid) = inner_thread(scene, culprit) {
        let index = thread_index(it.process, tid);
        let more =
            index.and_then(|index| case.cite(culprit, &format!("proc/threads/{index}/call")));
        let name =
            crate::case::trace_of(it.process, tid).and_then(|trace| trace.thread_name.clone());
        let does = index.and_then(|index| it.process.proc.threads[index].call.as_ref());
        let does = does.map_or_else(
            || "is".to_owned(),
            |call| format!("waits in {}", words::safe(&call.name)),
        );
        let words = format!(
            " for its thread {tid}{}, which {does}{}",
            name.map_or_else(String::new, |name| format!(" ({})", words::safe(&name))),
            words::at(&case.culprit(culprit, Some(tid)))
        );
        return (Some(tid), words, evidence.into_iter().chain(more).collect());
    }
    if let Some((words, more)) = lost_child(scene, culprit) {
        return (None, words, evidence.into_iter().chain(more).collect());
    }
    let children = it.children.iter().copied();
    let mut alive = children
        .filter(|child| case.actors[*child].fate == Fate::Alive && case.actors[*child].stands());
    let waits_for_child = matches!(
        it.wait,
        Wait::Read { .. } | Wait::Poll { .. } | Wait::Child { .. } | Wait::Futex { .. }
    );
    if waits_for_child && let Some(child) = alive.find(|child| !works_for(scene, *child, culprit)) {
        let words = format!(
            ", for its process {}, which {}{}",
            case.actors[child].process.pid,
            words::call(case.actors[child].process),
            words::at_actor(case, child)
        );
        let more = scene.standing(child);
        return (None, words, evidence.into_iter().chain(more).collect());
    }
    (None, String::new(), evidence)
}

/// A child of a rank that is gone and did not end well, in words, and what shows it: a worker of the same program or one that a signal
/// ended; of one that is in no snapshot, as its obituary says.
fn lost_child(scene: &Scene<'_>, rank: usize) -> Option<(String, Vec<Evidence>)> {
    let case = &scene.case;
    let it = &case.actors[rank];
    let say = |pid: i32, how: String| format!(", and its process {pid} {how}");
    let is_lost = |child: &usize| {
        let child = &case.actors[*child];
        let is_worker = child.process.exe.is_some() && child.process.exe == it.process.exe;
        let is_gone = child.fate != Fate::Alive;
        is_gone && (child.was_killed() || (is_worker && is_bad(child.ending())))
    };
    let mut children = it.children.iter().copied();
    if let Some(dead) = children.find(is_lost) {
        let words = say(case.actors[dead].process.pid, words::ended(case, dead));
        return Some((words, case.ended(dead)));
    }
    let mut ends = case.nodes[it.node].ends.iter().copied();
    let end = ends.find(|end| {
        let one = end.obituary;
        one.ppid == it.process.pid && one.ending.signal().is_some()
    })?;
    let words = say(end.obituary.process.pid, words::how(end.obituary.ending));
    Some((words, case.cite_end(end, it.node).into_iter().collect()))
}

/// Whether a worker waits for its rank: to be given work, or to be rid of its results.
fn works_for(scene: &Scene<'_>, child: usize, rank: usize) -> bool {
    let edge = scene.graph.edge(child);
    edge.is_some_and(|edge| {
        matches!(
            edge.kind,
            EdgeKind::PipeRead | EdgeKind::SocketRead | EdgeKind::Shared | EdgeKind::PipeWrite
        ) && (edge.wakers.contains(&rank) || edge.wakers.iter().all(|waker| *waker == child))
    })
}

/// The thread that the main thread of a process waits for: a Python thread of the job's own code, where the main thread waits
/// for a notice or for a thread to end.
fn inner_thread(scene: &Scene<'_>, actor: usize) -> Option<i32> {
    let process = scene.case.actors[actor].process;
    let Wait::Futex {
        is_private: true, ..
    } = scene.case.actors[actor].wait
    else {
        return None;
    };
    let main = python::main_trace(process)?;
    if !matches!(python::wants(&main.frames)?, Wants::Notice | Wants::Thread) {
        return None;
    }
    let traces = process.pyspy.iter().flat_map(|stacks| &stacks.traces);
    let others = traces.filter(|trace| trace.os_thread_id != main.os_thread_id);
    let own = others.filter(|trace| {
        let frame = python::telling_frame(&trace.frames);
        frame.is_some_and(|frame| !python::is_standard_library(frame))
    });
    let mut own = own.filter_map(|trace| i32::try_from(trace.os_thread_id?).ok());
    own.next()
}
