//! The task is over, and a process of it was ended by a signal.

use super::Rule;
use crate::case::Fate;
use crate::scene::{Scene, Stall};
use crate::verdict::{Cause, State, Verdict};
use crate::words;

pub(super) const RULE: Rule = Rule {
    name: "crashed-at-the-end",
    needs: "how processes ended, of a task none of which is left",
    proves: "a process was ended by a signal that means a fault of its own",
    refuted_by: "none was",
    holds,
};

/// SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS: what a process does to itself (signal(7)).
const FAULTS: [u8; 7] = [4, 5, 6, 7, 8, 11, 31];

fn holds(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    if scene.stall != Stall::Ended {
        return Err("the task is not over".to_owned());
    }
    let case = &scene.case;
    let faulty = case.actors.iter().enumerate().filter(|(_, actor)| {
        actor.fate == Fate::Zombie
            && actor
                .process
                .proc
                .exit_signal
                .is_some_and(|it| FAULTS.contains(&it))
    });
    let Some((culprit, _)) = faulty.min_by_key(|(index, actor)| (actor.snapshot, *index)) else {
        return Err("no process is known to have been ended by a fault".to_owned());
    };
    let summary = format!(
        "{} {}.",
        words::who(case, culprit),
        words::ended(case, culprit)
    );
    let evidence = ["identity", "state", "proc/exit_signal"]
        .iter()
        .filter_map(|key| case.cite(culprit, key));
    let claim = scene
        .claim(State::Failed, Cause::Crashed)
        .by(culprit)
        .shown_by(evidence.collect::<Vec<_>>());
    Ok(vec![claim.say(summary)])
}
