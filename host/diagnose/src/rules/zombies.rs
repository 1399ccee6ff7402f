//! Children have ended and their parent does not take notice.

use std::collections::BTreeMap;

use super::Rule;
use crate::case::Fate;
use crate::ending::is_bad;
use crate::motion::Motion;
use crate::scene::Scene;
use crate::verdict::{Cause, State, Verdict};
use crate::wait::Wait;
use crate::words;

pub(super) const RULE: Rule = Rule {
    name: "zombie-unreaped",
    needs: "ended children that are still there over three intervals, and what their parent does",
    proves: "a parent has not asked for the status of children that have ended, and gets nowhere",
    refuted_by: "the parent waits for a child, for a time, for somebody who lives or for others to come, or gets on, or looks again and the children ended well",
    holds,
};

fn holds(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    let mut parents: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, actor) in case.actors.iter().enumerate() {
        if actor.fate != Fate::Zombie || !is_old(scene, index) {
            continue;
        }
        if let Some(parent) = actor
            .parent
            .filter(|parent| case.actors[*parent].fate == Fate::Alive)
        {
            parents.entry(parent).or_default().push(index);
        }
    }
    parents.retain(|parent, zombies| takes_no_notice(scene, *parent, zombies));
    let most = parents
        .iter()
        .max_by_key(|(parent, zombies)| (zombies.len(), std::cmp::Reverse(**parent)));
    let Some((&culprit, zombies)) = most else {
        return Err("no parent leaves ended children unasked".to_owned());
    };
    scene.must_stand()?;
    let failed = zombies.iter().filter(|zombie| ended_badly(scene, **zombie));
    let failed = match (failed.count(), zombies.len()) {
        (0, _) => String::new(),
        (1, 1) => " badly".to_owned(),
        (count, all) if count == all => ", all of them badly".to_owned(),
        (count, _) => format!(", {count} of them badly"),
    };
    let summary = format!(
        "{} has {} that ended{failed} ({}), takes no notice, and waits{}.",
        words::who(case, culprit),
        match zombies.len() {
            1 => "a child".to_owned(),
            count => format!("{count} children"),
        },
        words::ended(case, zombies[0]),
        words::at_actor(case, culprit),
    );
    let keys = ["state", "ppid", "proc/exit_code", "proc/exit_signal"];
    let evidence = zombies
        .iter()
        .take(3)
        .flat_map(|zombie| keys.iter().filter_map(|key| case.cite(*zombie, key)));
    let victims = scene.victims(&[culprit]);
    let claim = scene
        .claim(State::Hung, Cause::ZombieUnreaped)
        .by(culprit)
        .holding_up(&victims);
    Ok(vec![
        claim
            .shown_by(evidence.collect::<Vec<_>>())
            .shown_by(scene.standing(culprit))
            .say(summary),
    ])
}

/// Whether a parent neither waits for children, for a time, for others to come or for somebody at work, nor just paces itself.
fn takes_no_notice(scene: &Scene<'_>, parent: usize, zombies: &[usize]) -> bool {
    let it = &scene.case.actors[parent];
    let is_seen = !it.process.proc.threads.is_empty();
    let does_else = matches!(it.wait, Wait::Child { .. } | Wait::Stopped | Wait::Storage);
    // Who looks again now and then may do so whatever became of children that ended well.
    let is_paced = match it.motion() {
        Motion::Still => it.wait == Wait::Sleep,
        _ => !zombies.iter().any(|zombie| ended_badly(scene, *zombie)),
    };
    is_seen
        && !does_else
        && !is_paced
        && !may_wait_for_others(scene, parent)
        && !scene.serves(parent)
        && scene.hope(parent).is_none()
}

/// Whether what a parent waits for may come from somebody who lives: then that one is the matter, or not known.
fn may_wait_for_others(scene: &Scene<'_>, parent: usize) -> bool {
    let it = &scene.case.actors[parent];
    let Some(edge) = scene.graph.edge(parent) else {
        let Wait::Read { target, .. } = &it.wait else {
            return false;
        };
        return ["pipe:", "socket:"]
            .iter()
            .any(|kind| target.starts_with(kind));
    };
    let lives = |waker: &usize| *waker != parent && scene.case.actors[*waker].fate == Fate::Alive;
    edge.outside || edge.wakers.iter().any(lives)
}

fn ended_badly(scene: &Scene<'_>, zombie: usize) -> bool {
    is_bad(scene.case.actors[zombie].ending())
}

/// Whether it had ended in every snapshot of the window.
fn is_old(scene: &Scene<'_>, zombie: usize) -> bool {
    let node = scene.case.node_of(zombie);
    let identity = scene.case.actors[zombie].process.identity;
    node.is_patient()
        && node.window.iter().all(|position| {
            let mut processes = node.snapshots[*position].processes.iter();
            processes.any(|process| process.identity == identity && process.state == 'Z')
        })
}
