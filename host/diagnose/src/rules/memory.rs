//! Memory ran out, or is about to.

use std::collections::HashMap;

use model::{CgroupLevel, Ending};

use super::Rule;
use super::cgroups::levels;
use crate::case::{Actor, Fate};
use crate::scene::{Scene, Stall};
use crate::verdict::{Cause, State, Verdict};
use crate::words;

pub(super) const KILLED: Rule = Rule {
    name: "out-of-memory",
    needs: "how many processes the kernel has killed in the task's cgroups, and which processes are gone",
    proves: "a process was killed at the memory limit of its cgroup, and the task stands still since",
    refuted_by: "the count has not grown, or the task gets on",
    holds: killed,
};

pub(super) const GONE: Rule = Rule {
    name: "memory-gone",
    needs: "whether a cgroup of the task has run out of memory while nothing is killed for it",
    proves: "memory has run out, and all that ask for more wait until somebody gives some back",
    refuted_by: "there is room below the limit",
    holds: gone,
};

pub(super) const PRESSURE: Rule = Rule {
    name: "memory-pressure",
    needs: "usage and limit of memory, and how much time was lost waiting for memory, in two snapshots",
    proves: "the cgroup is at its limit and its processes lose a good part of their time to that",
    refuted_by: "there is room below the limit, or no time is lost",
    holds: pressure,
};

fn killed(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    for (node, it) in case.nodes.iter().enumerate() {
        let mut first: HashMap<&str, u64> = HashMap::new();
        for (position, snapshot) in it.snapshots.iter().enumerate() {
            for (pointer, level) in levels(snapshot) {
                let Some(kills) = level.memory.as_ref().and_then(|memory| memory.oom_kills) else {
                    continue;
                };
                let before = *first.entry(level.path.as_str()).or_insert(kills);
                if kills <= before {
                    continue;
                }
                match it.over {
                    Some(Ending::Exited(0)) => {
                        return Err("the task ended well nevertheless".to_owned());
                    }
                    // The end says who was killed, and whether the others followed from it.
                    Some(_) => return Err("the task is over".to_owned()),
                    None if scene.stall == Stall::Ended => {}
                    None => scene.must_not_move()?,
                }
                return Ok(vec![found(scene, node, position, &pointer, level)]);
            }
        }
    }
    Err("no process was killed for memory while it was watched".to_owned())
}

/// The kill is first seen in the snapshot at `position`.
fn found(
    scene: &Scene<'_>,
    node: usize,
    position: usize,
    pointer: &str,
    level: &CgroupLevel,
) -> Verdict {
    let case = &scene.case;
    let victim = largest_gone(scene, node, position, level);
    let parent = victim.and_then(|victim| case.actors[victim].parent);
    let parent = parent.filter(|parent| case.actors[*parent].fate == Fate::Alive);
    let limit = level
        .memory
        .as_ref()
        .and_then(|memory| memory.limit_bytes.number());
    let at = limit.map_or_else(String::new, |limit| {
        format!(" at its limit of {}", words::size(limit))
    });
    let who = victim.map_or_else(|| "a process".to_owned(), |actor| words::who(case, actor));
    let waiting = parent.map_or_else(String::new, |parent| {
        format!(
            "; {} waits{}",
            words::who(case, parent),
            words::at_actor(case, parent)
        )
    });
    let summary =
        format!("{who} was killed because the memory of its cgroup ran out{at}{waiting}.");
    let numbers = ["oom_kills", "limit_bytes", "usage_bytes"];
    let numbers = numbers
        .iter()
        .filter_map(|key| case.cite_at(node, position, &format!("{pointer}/memory/{key}")));
    let state = match scene.stall {
        Stall::Ended => State::Failed,
        _ => State::Hung,
    };
    let mut claim = scene.claim(state, Cause::OutOfMemory).shown_by(numbers);
    if let Some(actor) = victim {
        let waiting: Vec<usize> = parent.into_iter().collect();
        let ranks = scene.victims(&[actor]);
        claim = claim.shown_by(case.cite(actor, "identity")).by(actor);
        claim = claim.holding_up(if ranks.is_empty() { &waiting } else { &ranks });
    }
    claim.say(summary)
}

/// SIGKILL, by which the kernel ends who is to give memory back.
const KILL: i32 = 9;

/// Of those that were last seen just before, in that cgroup as far as it is known, or that were killed and are not asked for,
/// the largest.
fn largest_gone(
    scene: &Scene<'_>,
    node: usize,
    position: usize,
    level: &CgroupLevel,
) -> Option<usize> {
    let name = level.path.rsplit('/').next().unwrap_or_default();
    let is_candidate = |actor: &Actor<'_>| {
        let in_it = actor.process.cgroup.iter().any(|line| line.contains(name));
        let went = actor.fate != Fate::Alive && actor.snapshot + 1 >= position && in_it;
        let killed = actor.was_killed() && actor.ending().signal() == Some(KILL);
        actor.node == node && (went || killed)
    };
    let actors = scene.case.actors.iter().enumerate();
    let gone = actors.filter(|(_, actor)| is_candidate(actor));
    let largest = gone.max_by_key(|(_, actor)| {
        let memory = actor.process.memory.as_ref();
        (
            actor.snapshot <= position,
            memory.map_or(0, |memory| memory.rss_bytes),
        )
    });
    largest.map(|(index, _)| index)
}

/// Percent of the last ten seconds that all lost to waiting for memory, from which on it is a matter.
const LOST: f64 = 20.0;

fn gone(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let is_out = |short: &Short| matches!(short, Short::Out);
    let found = short_of_memory(scene, is_out);
    found
        .ok_or_else(|| "no cgroup of the task has run out of memory with nothing killed".to_owned())
}

fn pressure(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let is_lost = |short: &Short| matches!(short, Short::Lost(_));
    let found = short_of_memory(scene, is_lost);
    found.ok_or_else(|| "no cgroup of the task is at its memory limit and loses time".to_owned())
}

fn short_of_memory(scene: &Scene<'_>, fits: impl Fn(&Short) -> bool) -> Option<Vec<Verdict>> {
    for (node, it) in scene.case.nodes.iter().enumerate() {
        for (pointer, level) in levels(it.newest()) {
            if let Some(short) = short(level).filter(|short| fits(short))
                && let Some(verdict) = pressed(scene, node, &pointer, short)
            {
                return Some(vec![verdict]);
            }
        }
    }
    None
}

/// How memory is short.
#[derive(Clone, Copy, Debug)]
enum Short {
    /// At the limit or the high mark, and this share of the time, percent, is lost.
    Lost(f64),
    /// It has run out, and nothing is killed for it.
    Out,
}

fn short(level: &CgroupLevel) -> Option<Short> {
    let memory = level.memory.as_ref()?;
    if memory.under_oom == Some(true) {
        return Some(Short::Out);
    }
    let lost = level.pressure.get("memory")?.full?.avg10_percent;
    let limits = [memory.high_bytes.number(), memory.limit_bytes.number()];
    let limit = limits.into_iter().flatten().min()?;
    let at_limit = memory.usage_bytes? >= limit - limit / 20;
    (at_limit && lost >= LOST).then_some(Short::Lost(lost))
}

fn pressed(scene: &Scene<'_>, node: usize, pointer: &str, short: Short) -> Option<Verdict> {
    let case = &scene.case;
    let rss = |actor: &usize| {
        let memory = case.actors[*actor].process.memory.as_ref();
        (
            memory.map_or(0, |memory| memory.rss_bytes),
            std::cmp::Reverse(*actor),
        )
    };
    let on_node = case.those(|actor| case.actors[actor].node == node);
    let largest = on_node.into_iter().max_by_key(rss)?;
    let who = words::who(case, largest);
    let (state, summary) = match short {
        Short::Out => {
            let stands = scene.stall == Stall::Stands;
            let state = if stands { State::Hung } else { State::Slow };
            let words =
                "Memory has run out and nothing is killed for it: all that ask for more wait";
            (state, format!("{words}; {who} has most."))
        }
        Short::Lost(lost) => {
            let words =
                format!("Memory is at its limit, and {lost:.0} % of the time is lost to that");
            (State::Slow, format!("{words}; {who} has most."))
        }
    };
    let keys = [
        "memory/usage_bytes",
        "memory/limit_bytes",
        "memory/high_bytes",
        "memory/under_oom",
        "pressure/memory/full/avg10_percent",
    ];
    let numbers = keys
        .iter()
        .filter_map(|key| case.cite_newest(node, &format!("{pointer}/{key}")));
    let claim = scene
        .claim(state, Cause::MemoryPressure)
        .by(largest)
        .shown_by(numbers);
    Some(
        claim
            .shown_by(case.cite(largest, "memory/rss_bytes"))
            .say(summary),
    )
}
