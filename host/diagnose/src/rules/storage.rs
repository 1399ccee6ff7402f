//! A file system or a disk does not answer.

use super::Rule;
use crate::case::{Fate, main_thread, thread_index};
use crate::motion::Motion;
use crate::scene::Scene;
use crate::verdict::{Cause, State, Verdict};
use crate::wait::Wait;
use crate::words;

pub(super) const RULE: Rule = Rule {
    name: "storage-stall",
    needs: "where the kernel has the main threads (`wchan`, kernel stack), and processor time over three intervals",
    proves: "a thread has been in one wait of a file system or disk for the whole window, and nothing gets on",
    refuted_by: "the thread ran in between",
    holds,
};

fn holds(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    let stuck = |actor: usize| {
        let it = &case.actors[actor];
        let is_elsewhere = matches!(it.wait, Wait::Frozen | Wait::Memory);
        let in_disk_sleep =
            it.process.state == 'D' && it.motion() == Motion::Still && !is_elsewhere;
        // A stopped one among the others may be what the file system is served by.
        (it.wait == Wait::Storage || in_disk_sleep) && !it.main_ran() && !is_vfork(scene, actor)
    };
    let mut stuck: Vec<usize> = case
        .alive()
        .map(|(index, _)| index)
        .filter(|it| stuck(*it))
        .collect();
    if stuck.is_empty() {
        return Err("no main thread has been waiting for a file system all the time".to_owned());
    }
    scene.must_stand()?;
    stuck.sort_by_key(|actor| {
        (
            !case.actors[*actor].is_rank,
            case.actors[*actor].rank,
            *actor,
        )
    });
    let culprit = stuck[0];
    let process = case.actors[culprit].process;
    let victims = scene.victims(&stuck);
    let path = main_thread(process).and_then(|thread| {
        let call = thread.call.as_ref()?;
        call.path.clone().or(call.fd_target.clone())
    });
    let of = path.map_or_else(String::new, |path| format!(" of {}", words::safe(&path)));
    let function = process.proc.wchan.clone().unwrap_or_default();
    let served = case
        .alive()
        .find(|(_, actor)| actor.wait == Wait::Stopped && actor.rank.is_none());
    let server = served.map_or_else(String::new, |(server, _)| {
        format!(
            "; {} is stopped and may be what serves it",
            words::who(case, server)
        )
    });
    let summary = format!(
        "{} waits{} for a file system or disk that does not answer{of} (in the kernel: {}){server}.",
        words::who(case, culprit),
        words::at_actor(case, culprit),
        words::safe(&function),
    );
    let claim = scene.claim(State::Hung, Cause::StorageStall).by(culprit);
    let thread = thread_index(process, process.pid);
    let call = thread.and_then(|index| case.cite(culprit, &format!("proc/threads/{index}/call")));
    let claim = claim.shown_by(scene.standing(culprit)).shown_by(call);
    let claim = claim.shown_by(served.and_then(|(server, _)| case.cite(server, "state")));
    Ok(vec![claim.holding_up(&victims).say(summary)])
}

/// A parent in vfork(2) is in state D until its child has become another program.
fn is_vfork(scene: &Scene<'_>, actor: usize) -> bool {
    let it = &scene.case.actors[actor];
    let call = main_thread(it.process).and_then(|thread| thread.call.as_ref());
    let children = it.children.iter();
    let mut alive = children.filter(|child| scene.case.actors[**child].fate == Fate::Alive);
    call.is_some_and(|call| call.name.contains("fork") || call.name.starts_with("clone"))
        && alive.next().is_some()
}
