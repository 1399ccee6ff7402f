//! It waits for somebody to type or to send something.

use super::Rule;
use crate::case::thread_index;
use crate::graph;
use crate::prompt::is_at_prompt;
use crate::scene::Scene;
use crate::verdict::{Cause, Evidence, State, Verdict};
use crate::wait::Wait;
use crate::words;

pub(super) const RULE: Rule = Rule {
    name: "waiting-for-input",
    needs: "what main threads read, over three intervals",
    proves: "a process has been reading its standard input or a terminal all the time, and nobody of the task could write to it",
    refuted_by: "it ran in between, a process of the task holds the other end, or a shell or Python itself asks for a command at a terminal",
    holds,
};

fn holds(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    let reads = |actor: usize| -> Option<String> {
        let it = &case.actors[actor];
        let (fd, target) = match &it.wait {
            Wait::Read { fd, target } => (*fd, target.clone()),
            Wait::Poll { fds, .. } if fds.as_slice() == [0] => {
                (0, graph::target_of(case, actor, 0)?)
            }
            _ => return None,
        };
        let is_terminal = graph::is_terminal(&target);
        // One whose descriptors could not be read may hold the other end.
        let from_outside = fd == 0
            && !case.node_of(actor).has_unread("fd")
            && scene
                .graph
                .edge(actor)
                .is_some_and(|edge| edge.wakers.is_empty());
        let is_asked = (is_terminal && !is_at_prompt(it.process)) || from_outside;
        (scene.waits_all_the_time(actor) && is_asked).then_some(target)
    };
    let found = case
        .alive()
        .find_map(|(index, _)| Some((index, reads(index)?)));
    let Some((culprit, target)) = found else {
        return Err("nobody reads standard input or a terminal all the time".to_owned());
    };
    scene.must_matter(&[culprit])?;
    let what = if target.starts_with("/dev/") {
        "a terminal"
    } else {
        "its standard input"
    };
    let summary = format!(
        "{} waits{} for input from {what} ({}), and nobody of the task can give it.",
        words::who(case, culprit),
        words::at_actor(case, culprit),
        words::safe(&target),
    );
    let process = case.actors[culprit].process;
    let mut evidence: Vec<Evidence> = scene.standing(culprit);
    if let Some(thread) = thread_index(process, process.pid) {
        evidence.extend(case.cite(culprit, &format!("proc/threads/{thread}/call")));
    }
    let victims = scene.victims(&[culprit]);
    let claim = scene.claim(State::Hung, Cause::WaitingForInput).by(culprit);
    Ok(vec![
        claim.holding_up(&victims).shown_by(evidence).say(summary),
    ])
}
