//! A process died and took something with it that others wait for.

use super::{Rule, ended};
use crate::case::{Actor, Fate, PATIENCE};
use crate::ending::{End, is_bad};
use crate::graph::EdgeKind;
use crate::python;
use crate::scene::Scene;
use crate::verdict::{Cause, State, Verdict};
use crate::wait::Wait;
use crate::words;

pub(super) const RULE: Rule = Rule {
    name: "crashed",
    needs: "who waits for a lock that processes share, who else maps it, and which process that did has ended",
    proves: "all that are left wait for the lock, or for those who do; who could have released it has ended",
    refuted_by: "somebody who maps it does something else",
    holds,
};

pub(super) const WORKER: Rule = Rule {
    name: "worker-lost",
    needs: "how children ended, and Python stacks, over three intervals",
    proves: "a main thread has waited for a result of a pool all the time, and a worker of that pool ended badly, so that its work is never given to another, or all do again and again",
    refuted_by: "the task gets on, or the pool is one that tells of it (`concurrent.futures`)",
    holds: worker,
};

fn worker(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    if let Some(verdict) = start_in_vain(scene) {
        return Ok(vec![verdict]);
    }
    scene.must_stand()?;
    let case = &scene.case;
    let waits = |actor: usize| {
        let it = &case.actors[actor];
        let frames = python::main_trace(it.process).map(|trace| trace.frames.as_slice());
        let is_given = frames.is_some_and(python::is_at_pool);
        is_given && !it.main_ran() && scene.hope(actor).is_none()
    };
    for actor in case.those(waits) {
        let it = &case.actors[actor];
        let mut ends = case.nodes[it.node].ends.iter().copied();
        let end = ends.find(|end| {
            let is_bad = is_bad(end.obituary.ending);
            is_bad && end.obituary.ppid == it.process.pid
        });
        let Some(end) = end else {
            continue;
        };
        let (cause, around) = words::circumstance(end.obituary);
        let summary = format!(
            "{} {}{around}; {} waits{} for a result of the pool that it worked for, which never comes.",
            ended::who(case, it.node, end),
            words::how(end.obituary.ending),
            words::who(case, actor),
            words::at_actor(case, actor),
        );
        let claim = scene
            .claim(State::Hung, cause.unwrap_or(Cause::Crashed))
            .blames(ended::culprit(case, it.node, end))
            .holding_up(&[actor]);
        let claim = claim.shown_by(case.cite_end(end, it.node));
        return Ok(vec![claim.shown_by(scene.standing(actor)).say(summary)]);
    }
    Err("nobody waits for a result of a pool a worker of which ended badly".to_owned())
}

/// A pool none of whose workers lives on: each ends badly soon after its start, as where its initializer fails, and another is
/// started. Work is never done by those.
fn start_in_vain(scene: &Scene<'_>) -> Option<Verdict> {
    let case = &scene.case;
    let waits = |actor: usize| {
        let it = &case.actors[actor];
        let frames = python::main_trace(it.process).map(|trace| trace.frames.as_slice());
        let is_given = frames.is_some_and(python::is_at_pool);
        is_given && !it.main_ran() && case.node_of(actor).is_patient()
    };
    for actor in case.those(waits) {
        let it = &case.actors[actor];
        let node = case.node_of(actor);
        let first = node.snapshots[node.window[0]];
        let was_there = |child: usize| {
            let identity = case.actors[child].process.identity;
            let mut earlier = first.processes.iter();
            earlier.any(|process| process.identity == identity)
        };
        let is_worker = |child: usize| case.actors[child].process.exe == it.process.exe;
        let mut children = it.children.iter().copied();
        let lives_on = children.any(|child| {
            let is_alive = case.actors[child].fate == Fate::Alive;
            is_alive && was_there(child) && is_worker(child) && !is_tracker(&case.actors[child])
        });
        let ends = node.ends.iter().copied().filter(|end| {
            let since = end.obituary.ended_at >= first.capture.started_at;
            since && end.obituary.ppid == it.process.pid
        });
        let ends: Vec<End<'_>> = ends.collect();
        let all_badly = ends.iter().all(|end| is_bad(end.obituary.ending));
        if lives_on || !all_badly || ends.len() <= PATIENCE {
            continue;
        }
        let last = ends[ends.len() - 1];
        let seconds = last
            .obituary
            .ended_at
            .since(first.capture.started_at)
            .as_secs()
            + 1;
        let summary = format!(
            "{} waits{} for a result of a pool whose workers all end soon after they are started: {} of them within {} s, the last one, {}, {}.",
            words::who(case, actor),
            words::at_actor(case, actor),
            ends.len(),
            seconds,
            last.obituary.process.pid,
            words::how(last.obituary.ending),
        );
        let told = ends.iter().take(PATIENCE);
        let told = told.filter_map(|end| case.cite_end(*end, it.node));
        let claim = scene
            .claim(State::Hung, Cause::Crashed)
            .blames(ended::culprit(case, it.node, last))
            .holding_up(&[actor]);
        let claim = claim.shown_by(case.cite_end(last, it.node)).shown_by(told);
        return Some(claim.shown_by(scene.standing(actor)).say(summary));
    }
    None
}

/// Whether a child is there to clean up after the others. `CPython`: `Lib/multiprocessing/resource_tracker.py`.
fn is_tracker(child: &Actor<'_>) -> bool {
    let mut arguments = child.process.cmdline.iter();
    arguments.any(|argument| argument.contains("resource_tracker"))
}

fn holds(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    let waiting = case.those(|actor| nobody_can(scene, actor));
    let Some(&first) = waiting.first() else {
        return Err(
            "nobody waits for a lock of processes that none who is left could release".to_owned(),
        );
    };
    let ended = case.actors.iter().enumerate();
    let ended =
        ended.filter(|(index, it)| it.fate != Fate::Alive && shared(scene, *index, it, first));
    let culprit = ended.min_by_key(|(index, it)| {
        let by_signal = it.was_killed();
        let last = std::cmp::Reverse(it.snapshot);
        (!by_signal, it.fate != Fate::Zombie, last, *index)
    });
    scene.must_matter_for_good(&waiting)?;
    let Some((culprit, _)) = culprit else {
        return unseen(scene, &waiting, first).map(|verdict| vec![verdict]);
    };
    let summary = format!(
        "{} {} and held a lock that {} wait{} for{}.",
        words::who(case, culprit),
        words::ended(case, culprit),
        words::many(case, &waiting),
        if waiting.len() == 1 { "s" } else { "" },
        words::at_actor(case, first),
    );
    let standing = scene.standing_of_some(&waiting);
    let claim = scene
        .claim(State::Hung, Cause::Crashed)
        .by(culprit)
        .holding_up(&waiting);
    let claim = claim
        .shown_by(case.ended(culprit))
        .shown_by(scene.graph.evidence(first));
    Ok(vec![claim.shown_by(standing).say(summary)])
}

/// The same where nobody who shared the lock was ever seen: a brother or a child ended badly before anybody looked, as its
/// obituary tells.
fn unseen(scene: &Scene<'_>, waiting: &[usize], first: usize) -> Result<Verdict, String> {
    let case = &scene.case;
    let it = &case.actors[first];
    let relatives = [it.process.ppid, it.process.pid];
    let ended = case.nodes[it.node].ends.iter().copied().find(|end| {
        let one = end.obituary;
        let is_bad = is_bad(one.ending);
        is_bad && relatives.contains(&one.ppid)
    });
    let Some(end) = ended else {
        return Err(
            "who held the lock is not known: no process that shared it has ended".to_owned(),
        );
    };
    let summary = format!(
        "{} {}; {} wait{} for a lock or barrier of processes{}, and nobody who is left can release it.",
        ended::who(case, it.node, end),
        words::how(end.obituary.ending),
        words::many(case, waiting),
        if waiting.len() == 1 { "s" } else { "" },
        words::at_actor(case, first),
    );
    let standing = scene.standing_of_some(waiting);
    let claim = scene
        .claim(State::Hung, Cause::Crashed)
        .blames(ended::culprit(case, it.node, end))
        .holding_up(waiting);
    let claim = claim
        .shown_by(case.cite_end(end, it.node))
        .shown_by(scene.graph.evidence(first));
    Ok(claim.shown_by(standing).say(summary))
}

/// Whether a process waits for shared memory, and all others that map it wait for children or are gone.
fn nobody_can(scene: &Scene<'_>, actor: usize) -> bool {
    let case = &scene.case;
    let waits = |waker: &usize| {
        let waker = &case.actors[*waker];
        waker.main_is_still_for(2) && matches!(waker.wait, Wait::Child { .. })
    };
    let edge = scene
        .graph
        .edge(actor)
        .filter(|edge| edge.kind == EdgeKind::Shared);
    case.actors[actor].main_is_still_for(2)
        && edge.is_some_and(|edge| !edge.outside && edge.wakers.iter().all(waits))
}

/// Whether one that has ended mapped the memory that `waiting` maps now, or is a killed brother of it.
fn shared(scene: &Scene<'_>, index: usize, ended: &Actor<'_>, waiting: usize) -> bool {
    let case = &scene.case;
    let waiting = &case.actors[waiting];
    if ended.node != waiting.node {
        return false;
    }
    let node = &case.nodes[ended.node];
    let newest = node.newest().ipc.shared_memory.iter();
    let maps = |file: &&model::SharedFile| {
        file.mapped
            .iter()
            .any(|it| it.identity == waiting.process.identity)
    };
    let files: Vec<_> = newest
        .filter(maps)
        .map(|file| (file.inode, &file.name))
        .collect();
    let mapped = node
        .snapshots
        .iter()
        .flat_map(|it| &it.ipc.shared_memory)
        .any(|file| {
            files.contains(&(file.inode, &file.name))
                && file
                    .mapped
                    .iter()
                    .any(|it| it.identity == ended.process.identity)
        });
    let brother = case.actors[index].parent == waiting.parent && waiting.parent.is_some();
    mapped || (brother && ended.was_killed())
}
