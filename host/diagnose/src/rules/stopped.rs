//! A process is stopped.

use super::Rule;
use crate::scene::{Scene, Stall};
use crate::verdict::{Cause, State, Verdict};
use crate::wait::{self, Wait};
use crate::words;

pub(super) const RULE: Rule = Rule {
    name: "stopped",
    needs: "the state of processes and where the kernel has them, over three intervals",
    proves: "a process is in state T (stopped by a signal) or t (by a debugger), or frozen, and was so all the time; it is a rank, or the task waits for it",
    refuted_by: "it runs in a later snapshot, or the task gets on without it",
    holds,
};

fn holds(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    let stopped: Vec<usize> = case
        .alive()
        .filter(|(index, actor)| is_held(&actor.wait) && was_stopped(scene, *index))
        .map(|(index, _)| index)
        .collect();
    if stopped.is_empty() {
        return Err("no process is stopped".to_owned());
    }
    if let Stall::Moves(_) | Stall::Ended | Stall::Short = scene.stall {
        scene.must_matter_for_good(&stopped)?;
    }
    // A rank comes first: it is what the others wait for.
    let first = stopped.iter().copied().min_by_key(|actor| {
        let it = &case.actors[*actor];
        (!it.is_rank, it.rank, *actor)
    });
    let culprit = first.unwrap_or(stopped[0]);
    let victims = scene.victims(&stopped);
    let by = match case.actors[culprit].process.state {
        _ if case.actors[culprit].wait == Wait::Frozen => "with its cgroup (frozen)",
        't' => "by a debugger (ptrace)",
        _ => "by a signal (SIGSTOP, SIGTSTP or the like)",
    };
    let waiting = match victims.len() {
        0 => String::new(),
        1 => format!("; {} waits for it", words::many(case, &victims)),
        _ => format!("; {} wait for it", words::many(case, &victims)),
    };
    let summary = format!("{} is stopped {by}{waiting}.", words::who(case, culprit));
    let evidence = stopped.iter().take(8).flat_map(|actor| {
        let keys = ["state", "proc/wchan"].iter();
        keys.filter_map(|key| case.cite(*actor, key))
    });
    let claim = scene
        .claim(State::Hung, Cause::Stopped)
        .by(culprit)
        .holding_up(&victims);
    let seen = victims
        .iter()
        .take(4)
        .flat_map(|victim| scene.standing(*victim));
    Ok(vec![claim.shown_by(evidence).shown_by(seen).say(summary)])
}

/// Whether it has been stopped for the whole window: somebody may stop a task for a moment, and let it go on.
fn was_stopped(scene: &Scene<'_>, actor: usize) -> bool {
    let node = scene.case.node_of(actor);
    let identity = scene.case.actors[actor].process.identity;
    let is_held_at = |position: &usize| {
        let mut processes = node.snapshots[*position].processes.iter();
        processes.any(|process| process.identity == identity && is_held(&wait::of_main(process).0))
    };
    node.is_patient() && node.window.iter().all(is_held_at)
}

fn is_held(wait: &Wait) -> bool {
    matches!(wait, Wait::Stopped | Wait::Frozen)
}
