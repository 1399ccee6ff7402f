//! A process died and took something with it that others wait for.

use super::Rule;
use crate::case::{Actor, Fate};
use crate::graph::EdgeKind;
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
    let Some((culprit, _)) = culprit else {
        return Err(
            "who held the lock is not known: no process that shared it has ended".to_owned(),
        );
    };
    scene.must_matter_for_good(&waiting)?;
    let summary = format!(
        "{} {} and held a lock that {} wait{} for{}.",
        words::who(case, culprit),
        words::ended(case, culprit),
        words::many(case, &waiting),
        if waiting.len() == 1 { "s" } else { "" },
        words::at_actor(case, first),
    );
    let standing = waiting
        .iter()
        .take(4)
        .flat_map(|actor| scene.standing(*actor));
    let claim = scene
        .claim(State::Hung, Cause::Crashed)
        .by(culprit)
        .holding_up(&waiting);
    let claim = claim
        .shown_by(case.ended(culprit))
        .shown_by(scene.graph.evidence(first));
    Ok(vec![claim.shown_by(standing).say(summary)])
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
        && edge.is_some_and(|edge| edge.wakers.iter().all(waits))
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
