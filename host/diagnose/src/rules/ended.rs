//! The task is over: which end the others follow from.

use std::collections::BTreeSet;

use model::{Ending, Obituary, ProcessId, Timestamp};

use super::Rule;
use crate::case::{Case, Fate};
use crate::ending::{End, first_end, is_of_rank, is_told_to_end};
use crate::scene::{Scene, Stall};
use crate::verdict::{Cause, Culprit, State, Verdict};
use crate::{python, words};

pub(super) const RULE: Rule = Rule {
    name: "ended",
    needs: "how processes ended, of a task none of which is left",
    proves: "the main process did not end well, and which process was the first that did not",
    refuted_by: "the main process ended with status 0",
    holds,
};

/// SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS: what a process does to itself (signal(7)).
const FAULTS: [i32; 7] = [4, 5, 6, 7, 8, 11, 31];

fn holds(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    if scene.stall != Stall::Ended {
        return Err("the task is not over".to_owned());
    }
    let nodes = 0..scene.case.nodes.len();
    let mut found: Vec<(Option<Timestamp>, Verdict)> =
        nodes.filter_map(|node| of_node(scene, node)).collect();
    // Of several nodes, the first to fail is the cause.
    found.sort_by_key(|(at, _)| *at);
    if found.is_empty() {
        return Err("no process is known to have ended badly".to_owned());
    }
    Ok(found.into_iter().map(|(_, verdict)| verdict).collect())
}

/// When the first process of a node ended badly, where that is known, and what that amounts to.
fn of_node(scene: &Scene<'_>, node: usize) -> Option<(Option<Timestamp>, Verdict)> {
    let case = &scene.case;
    let it = &case.nodes[node];
    let Some(main) = it.over else {
        return Some((
            None,
            by_fault(scene, node).or_else(|| by_status(scene, node))?,
        ));
    };
    if main == Ending::Exited(0) {
        return None;
    }
    let root = it.newest().scope.as_ref()?.root;
    let obituaries: Vec<&Obituary> = it.ends.iter().map(|end| end.obituary).collect();
    let own = it.ends.iter().find(|end| end.obituary.process == root);
    let first = first_end(&obituaries, root, main);
    // How the main process ended is not known: that the task failed is told by a rank that did.
    if main == Ending::Unknown && !first.is_some_and(is_of_rank) {
        return None;
    }
    let first = first.or(own.map(|end| end.obituary))?;
    let end = *it.ends.iter().find(|end| end.obituary == first)?;
    let unclear = before(&obituaries, first).or_else(|| lost(case, node, &obituaries, first));
    if let Some(unclear) = unclear {
        return Some((
            Some(first.ended_at),
            not_told(scene, node, own.copied(), unclear),
        ));
    }
    let (cause, around) = words::circumstance(first);
    let who = who(case, node, end);
    let followed = if first.process == root {
        String::new()
    } else {
        format!("; the main process, {}, {}", root.pid, words::how(main))
    };
    let culprit = culprit(case, node, end);
    let place = words::at(&culprit);
    let seen = if place.is_empty() {
        place
    } else {
        format!(", last seen{place}")
    };
    let first_word = if first.process == root { "" } else { " first" };
    let summary = format!(
        "{who} {}{first_word}{around}{seen}{followed}.",
        words::how(first.ending)
    );
    let mut claim = scene.claim(State::Failed, cause.unwrap_or(Cause::Crashed));
    claim = claim.shown_by(case.cite_end(end, node));
    claim = claim.shown_by(own.and_then(|own| case.cite_end(*own, node)));
    Some((Some(first.ended_at), claim.blames(culprit).say(summary)))
}

/// One that was seen, or is a rank, and ended before `first` in a way that is not known: it may have been the first to fail.
fn before(all: &[&Obituary], first: &Obituary) -> Option<ProcessId> {
    let mut earlier = all.iter().filter(|one| one.order < first.order);
    let counts = |one: &&&Obituary| is_of_rank(one) || one.last_snapshot.is_some();
    let found = earlier.find(|one| one.ending == Ending::Unknown && counts(one));
    found.map(|one| one.process)
}

/// A rank, or one that the newest snapshot shows, whose end is not among `all`, where one that came before `first` is not: it was
/// lost, or cannot be read.
fn lost(case: &Case<'_>, node: usize, all: &[&Obituary], first: &Obituary) -> Option<ProcessId> {
    let earlier = all.iter().map(|one| one.order);
    let earlier: BTreeSet<u64> = earlier.filter(|order| *order < first.order).collect();
    if u64::try_from(earlier.len()) == Ok(first.order) {
        return None;
    }
    let is_told = |process: ProcessId| all.iter().any(|one| one.process == process);
    let newest = case.nodes[node].newest_index();
    let mut seen = case.actors.iter().filter(|it| it.node == node);
    let found =
        seen.find(|it| (it.is_rank || it.snapshot == newest) && !is_told(it.process.identity));
    found.map(|it| it.process.identity)
}

/// It failed, and who was the first is not known.
fn not_told(scene: &Scene<'_>, node: usize, own: Option<End<'_>>, unclear: ProcessId) -> Verdict {
    let case = &scene.case;
    let root = own.map_or_else(String::new, |own| {
        let it = own.obituary;
        format!(
            "The main process, {}, {}; ",
            it.process.pid,
            words::how(it.ending)
        )
    });
    let summary = format!(
        "{root}which process failed first is not known: how process {} ended was not told.",
        unclear.pid
    );
    let claim = scene.claim(State::Failed, Cause::Crashed);
    let shown = own.and_then(|own| case.cite_end(own, node));
    claim.shown_by(shown).say(summary)
}

/// Of a task whose obituaries are not there: a zombie that was ended by a fault.
fn by_fault(scene: &Scene<'_>, node: usize) -> Option<Verdict> {
    let case = &scene.case;
    let faulty = case.actors.iter().enumerate().filter(|(_, actor)| {
        let signal = actor.ending().signal();
        actor.node == node
            && actor.fate == Fate::Zombie
            && signal.is_some_and(|it| FAULTS.contains(&it))
    });
    let (culprit, _) = faulty.min_by_key(|(index, actor)| (actor.snapshot, *index))?;
    let summary = format!(
        "{} {}.",
        words::who(case, culprit),
        words::ended(case, culprit)
    );
    let claim = scene.claim(State::Failed, Cause::Crashed).by(culprit);
    Some(claim.shown_by(case.ended(culprit)).say(summary))
}

/// Of a task whose obituaries are not there: the main process, which nobody has asked for its status yet, did not end well. Whether
/// it was the first is known where all others that were seen ended well.
fn by_status(scene: &Scene<'_>, node: usize) -> Option<Verdict> {
    let case = &scene.case;
    if case.nodes[node].told_to_end.is_some() {
        return None;
    }
    let main = case.find(node, case.nodes[node].newest().scope.as_ref()?.root)?;
    let ending = case.actors[main].ending();
    if matches!(ending, Ending::Exited(0) | Ending::Unknown) || is_told_to_end(ending) {
        return None;
    }
    let mut others = case.actors.iter().enumerate();
    let is_first = others.all(|(index, other)| {
        index == main || other.node != node || other.ending() == Ending::Exited(0)
    });
    let rest = if is_first {
        ""
    } else {
        "; which process failed first is not known"
    };
    let how = words::how(ending);
    let summary = format!("{} {how}{rest}.", words::who(case, main));
    let claim = scene.claim(State::Failed, Cause::Crashed);
    let claim = claim.shown_by(case.ended(main));
    Some(if is_first { claim.by(main) } else { claim }.say(summary))
}

pub(super) fn who(case: &Case<'_>, node: usize, end: End<'_>) -> String {
    let one = end.obituary;
    if let Some(actor) = case.find(node, one.process) {
        return words::who(case, actor);
    }
    match one.rank {
        Some(rank) => format!("rank {rank}"),
        None => format!("process {} ({})", one.process.pid, words::safe(&one.name)),
    }
}

pub(super) fn culprit(case: &Case<'_>, node: usize, end: End<'_>) -> Culprit {
    let one = end.obituary;
    let stack = one.stack.as_ref().map(|trace| trace.frames.as_slice());
    let frame = stack.and_then(python::telling_frame);
    let frame = frame.map(|frame| python::place(frame));
    if let Some(actor) = case.find(node, one.process) {
        let named = case.culprit(actor, None);
        return Culprit {
            frame: frame.or(named.frame.clone()),
            rank: named.rank.or(one.rank),
            ..named
        };
    }
    Culprit {
        node: case.nodes[node].newest().task.node.clone(),
        rank: one.rank,
        pid: one.process.pid,
        process: one.process.to_string(),
        thread: None,
        frame,
    }
}
