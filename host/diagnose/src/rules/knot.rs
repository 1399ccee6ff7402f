//! Processes that share locks in memory, each of which only others of them could release.

use super::Rule;
use crate::graph::EdgeKind;
use crate::scene::Scene;
use crate::verdict::{Cause, Evidence, State, Verdict};
use crate::words;

pub(super) const RULE: Rule = Rule {
    name: "deadlock-of-processes",
    needs: "what processes wait for and all that could end it, and that none of their threads ran over two intervals",
    proves: "some wait for memory that they share, and all that could wake them wait for each other or for them",
    refuted_by: "somebody who maps that memory does something else",
    holds,
};

fn holds(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    let knot = knot(scene);
    let at_lock = |actor: &usize| {
        let edge = scene.graph.edge(*actor);
        edge.is_some_and(|edge| edge.kind == EdgeKind::Shared)
    };
    let locked: Vec<usize> = knot.iter().copied().filter(at_lock).collect();
    let Some(&first) = locked.first() else {
        return Err(
            "no processes wait for locks that only others of them could release".to_owned(),
        );
    };
    scene.must_matter_for_good(&knot)?;
    let parts: Vec<String> = locked
        .iter()
        .take(4)
        .map(|actor| {
            format!(
                "{}{}",
                words::who(case, *actor),
                words::at_actor(case, *actor)
            )
        })
        .collect();
    let summary = format!(
        "Deadlock: {} wait{} for a lock that processes share, and all who could release it wait for each other.",
        parts.join(" and "),
        if locked.len() == 1 { "s" } else { "" },
    );
    let evidence: Vec<Evidence> = knot
        .iter()
        .take(6)
        .flat_map(|actor| {
            scene
                .graph
                .evidence(*actor)
                .into_iter()
                .chain(scene.standing(*actor))
        })
        .collect();
    let mut victims: Vec<usize> = knot.into_iter().filter(|actor| !at_lock(actor)).collect();
    victims.extend(scene.victims(&locked));
    victims.sort_unstable();
    victims.dedup();
    let claim = scene
        .claim(State::Hung, Cause::Deadlock)
        .by(first)
        .holding_up(&victims);
    Ok(vec![claim.shown_by(evidence).say(summary)])
}

/// The processes none of which ran, and each of which only others of them could free.
fn knot(scene: &Scene<'_>) -> Vec<usize> {
    let mut knot = scene
        .case
        .those(|actor| scene.case.actors[actor].is_still_for(2));
    loop {
        let all = knot.clone();
        knot.retain(|actor| {
            scene.graph.edge(*actor).is_some_and(|edge| {
                let is_in = |waker: &usize| all.contains(waker);
                let by_nobody = edge.wakers.is_empty() && is_for_nobody(scene, *actor);
                let by_those = !edge.wakers.is_empty() && edge.wakers.iter().all(is_in);
                !edge.outside && (by_those || by_nobody)
            })
        });
        if knot.len() == all.len() {
            return knot;
        }
    }
}

/// Whether a process waits, with all its threads, for a lock in files of memory that have no name any more and that nobody else
/// maps: whoever could have released it is gone.
fn is_for_nobody(scene: &Scene<'_>, actor: usize) -> bool {
    let case = &scene.case;
    let edge = scene.graph.edge(actor);
    let identity = case.actors[actor].process.identity;
    let files = &case.node_of(actor).newest().ipc.shared_memory;
    let mut mapped = files
        .iter()
        .filter(|file| file.mapped.iter().any(|it| it.identity == identity))
        .peekable();
    edge.is_some_and(|edge| edge.kind == EdgeKind::Shared)
        && scene.is_alone(actor)
        && mapped.peek().is_some()
        && mapped.all(|file| file.name.ends_with(" (deleted)"))
}
