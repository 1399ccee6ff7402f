//! Pipes: full with nobody who reads, or with nobody left at the other end.

use super::Rule;
use crate::case::{Case, Fate};
use crate::graph::{Edge, EdgeKind, target_of};
use crate::motion::Motion;
use crate::scene::Scene;
use crate::signals::catches;
use crate::verdict::{Cause, State, Verdict};
use crate::wait::Wait;
use crate::words;

/// signal(7).
const SIGCHLD: u32 = 17;

pub(super) const ORPHANED: Rule = Rule {
    name: "pipe-orphaned",
    needs: "who holds which end of a pipe that a process has waited for over two intervals",
    proves: "the only holders of the other end are those who wait at this one",
    refuted_by: "somebody else holds the other end, a thread of the process may write, or the end of a child wakes it",
    holds: orphaned,
};

pub(super) const FULL: Rule = Rule {
    name: "pipe-full",
    needs: "a process that has waited for room in a pipe over two intervals, and who could read from it",
    proves: "the pipe is full and its readers do something else",
    refuted_by: "a reader reads, ran in between, or comes back from a pause",
    holds: full,
};

fn stands(scene: &Scene<'_>, actor: usize) -> bool {
    let it = &scene.case.actors[actor];
    let by_another = it.waiting_thread != it.process.pid;
    it.main_is_still_for(2) && (!by_another || scene.waits_all_the_time(actor))
}

/// The one thing that a process reads, writes or polls.
fn target(case: &Case<'_>, actor: usize) -> Option<String> {
    match &case.actors[actor].wait {
        Wait::Read { target, .. } | Wait::Write { target, .. } => Some(target.clone()),
        Wait::Poll { fds, .. } => match fds.as_slice() {
            [fd] => target_of(case, actor, *fd),
            _ => None,
        },
        _ => None,
    }
}

fn orphaned(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    let is_orphaned = |actor: usize, edge: &Edge| {
        let mine = target(case, actor);
        let is_there = |waker: usize| mine.is_some() && target(case, waker) == mine;
        let same = |waker: &usize| *waker == actor || (stands(scene, *waker) && is_there(*waker));
        !edge.outside && !edge.wakers.is_empty() && edge.wakers.iter().all(same)
    };
    for (index, _) in case.alive() {
        let Some(edge) = scene.graph.edge(index) else {
            continue;
        };
        let of_pipe = matches!(edge.kind, EdgeKind::PipeRead | EdgeKind::PipeWrite);
        let may_be_fed = !scene.is_alone(index) || is_told_of_children(scene, index);
        if !of_pipe || !stands(scene, index) || !is_orphaned(index, edge) || may_be_fed {
            continue;
        }
        if scene.must_matter_for_good(&[index]).is_err() {
            continue;
        }
        let (does, end) = match edge.kind {
            EdgeKind::PipeWrite => ("waits for room in", "read"),
            _ => ("waits for data from", "written"),
        };
        let summary = format!(
            "{} {does} a pipe that nobody else can {}{}: it holds the other end itself, so it never sees that everybody is gone.",
            words::who(case, index),
            if end == "read" { "read" } else { "write to" },
            words::at_actor(case, index),
        );
        let victims = scene.victims(&[index]);
        let claim = scene
            .claim(State::Hung, Cause::PipeOrphaned)
            .by(index)
            .holding_up(&victims);
        return Ok(vec![
            claim
                .shown_by(edge.evidence.clone())
                .shown_by(scene.standing(index))
                .say(summary),
        ]);
    }
    Err("nobody waits at a pipe whose other end it holds alone".to_owned())
}

/// Whether a process is woken when a child of it ends: `make` waits so for a free place among the jobs that it started.
fn is_told_of_children(scene: &Scene<'_>, actor: usize) -> bool {
    let case = &scene.case;
    let it = &case.actors[actor];
    let mut children = it.children.iter();
    catches(it.process, SIGCHLD) && children.any(|child| case.actors[*child].fate == Fate::Alive)
}

/// Whether a process that should read what another writes is elsewhere than it was, or comes back from a pause.
fn is_away(scene: &Scene<'_>, reader: usize, writer: usize) -> bool {
    let reader = &scene.case.actors[reader];
    let waited = scene.case.actors[writer].seen.map(|seen| seen.main_still);
    let gets_on = matches!(reader.motion(), Motion::Advances(_));
    gets_on || !reader.stands() || reader.comes_back(waited.unwrap_or_default(), false)
}

fn full(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    for (index, _) in case.alive() {
        let Some(edge) = scene.graph.edge(index) else {
            continue;
        };
        if !matches!(edge.kind, EdgeKind::PipeWrite | EdgeKind::SocketWrite)
            || !stands(scene, index)
        {
            continue;
        }
        let mine = target(case, index);
        let others: Vec<usize> = edge
            .wakers
            .iter()
            .copied()
            .filter(|waker| *waker != index)
            .collect();
        let reads = |waker: usize| matches!(&case.actors[waker].wait, Wait::Read { target, .. } if Some(target) == mine.as_ref());
        if others
            .iter()
            .any(|waker| reads(*waker) || is_away(scene, *waker, index))
            || (others.is_empty() && (!edge.outside || case.node_of(index).has_unread("fd")))
        {
            continue;
        }
        if scene.must_matter(&[index]).is_err() {
            continue;
        }
        let summary = match others.first() {
            Some(reader) => format!(
                "{} waits{} for room in a full pipe; {} should read it but {}{}.",
                words::who(case, index),
                words::at_actor(case, index),
                words::who(case, *reader),
                words::call(case.actors[*reader].process),
                words::at_actor(case, *reader),
            ),
            None => format!(
                "{} waits{} for room in a full pipe, and who should read it is not of the task.",
                words::who(case, index),
                words::at_actor(case, index),
            ),
        };
        let culprit = others.first().copied().unwrap_or(index);
        let victims = scene.victims(&[culprit]);
        let claim = scene
            .claim(State::Hung, Cause::PipeFull)
            .by(culprit)
            .holding_up(&victims);
        let reader = scene.standing(culprit);
        return Ok(vec![
            claim
                .shown_by(edge.evidence.clone())
                .shown_by(scene.standing(index))
                .shown_by(reader)
                .say(summary),
        ]);
    }
    Err("nobody waits for room in a pipe".to_owned())
}
