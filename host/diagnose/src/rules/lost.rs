//! A process died and took something with it that others wait for.

use super::Rule;
use crate::case::{Actor, Fate};
use crate::graph::EdgeKind;
use crate::scene::Scene;
use crate::verdict::{Cause, Evidence, State, Verdict};
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
    let none_can = |actor: usize| {
        let edge = scene
            .graph
            .edge(actor)
            .filter(|edge| edge.kind == EdgeKind::Shared);
        let waits = |waker: &usize| {
            let waker = &case.actors[*waker];
            waker.main_is_still_for(2) && matches!(waker.wait, Wait::Child { .. })
        };
        case.actors[actor].main_is_still_for(2)
            && edge.is_some_and(|edge| edge.wakers.iter().all(waits))
    };
    let waiting: Vec<usize> = case
        .alive()
        .map(|(index, _)| index)
        .filter(|it| none_can(*it))
        .collect();
    let Some(&first) = waiting.first() else {
        return Err(
            "nobody waits for a lock of processes that none who is left could release".to_owned(),
        );
    };
    let ended = case
        .actors
        .iter()
        .enumerate()
        .filter(|(_, it)| it.fate != Fate::Alive);
    let ended = ended.filter(|(index, it)| shared(scene, *index, it, first));
    let culprit = ended.min_by_key(|(index, it)| {
        let by_signal = it.process.proc.exit_signal.is_some();
        (
            !by_signal,
            it.fate != Fate::Zombie,
            std::cmp::Reverse(it.snapshot),
            *index,
        )
    });
    let Some((culprit, _)) = culprit else {
        return Err(
            "who held the lock is not known: no process that shared it has ended".to_owned(),
        );
    };
    scene.must_matter(&waiting)?;
    let summary = format!(
        "{} {} and held a lock that {} for{}.",
        words::who(case, culprit),
        words::ended(case, culprit),
        match waiting.len() {
            1 => format!("{} waits", words::many(case, &waiting)),
            _ => format!("{} wait", words::many(case, &waiting)),
        },
        words::at_actor(case, first),
    );
    let ended = ["identity", "state", "proc/exit_signal", "proc/exit_code"];
    let mut evidence: Vec<Evidence> = ended
        .iter()
        .filter_map(|key| case.cite(culprit, key))
        .collect();
    evidence.extend(
        scene
            .graph
            .edge(first)
            .into_iter()
            .flat_map(|edge| edge.evidence.clone()),
    );
    evidence.extend(
        waiting
            .iter()
            .take(4)
            .flat_map(|actor| scene.standing(*actor)),
    );
    let claim = scene
        .claim(State::Hung, Cause::Crashed)
        .by(culprit)
        .holding_up(&waiting);
    Ok(vec![claim.shown_by(evidence).say(summary)])
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
    mapped || (brother && ended.process.proc.exit_signal.is_some())
}
