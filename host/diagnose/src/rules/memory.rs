//! Memory ran out, or is about to.

use std::collections::HashMap;

use model::{CgroupLevel, Ending, Process};

use super::Rule;
use super::cgroups::levels;
use crate::case::{Actor, Fate, Node};
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
    needs: "usage and limit of memory, and how much time was lost waiting for memory: in the cgroup, or where version 1 does not tell, on the machine",
    proves: "the cgroup is at its limit and its processes lose a good part of their time to that; on a machine that has memory to spare, it runs into that limit all the time",
    refuted_by: "there is room below the limit, no time is lost, or the machine itself is short of memory",
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
    let is_candidate = |actor: &Actor<'_>| {
        let in_it = is_in(actor.process, level);
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

/// Whether a process is in a cgroup or below it, as far as its name tells.
fn is_in(process: &Process, level: &CgroupLevel) -> bool {
    let name = level.path.rsplit('/').next().unwrap_or_default();
    process.cgroup.iter().any(|line| line.contains(name))
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
    let is_lost = |short: &Short| !matches!(short, Short::Out);
    let found = short_of_memory(scene, is_lost);
    found.ok_or_else(|| "no cgroup of the task is at its memory limit and loses time".to_owned())
}

fn short_of_memory(scene: &Scene<'_>, fits: impl Fn(&Short) -> bool) -> Option<Vec<Verdict>> {
    for (node, it) in scene.case.nodes.iter().enumerate() {
        for (pointer, level) in levels(it.newest()) {
            if let Some(short) = short(it, level).filter(|short| fits(short))
                && let Some(verdict) = pressed(scene, node, (&pointer, level), short)
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
    /// At the limit, running into it all the time, and for this share of it, percent, somebody on the machine waits for memory.
    LostOnMachine(f64),
    /// It has run out, and nothing is killed for it.
    Out,
}

fn short(node: &Node<'_>, level: &CgroupLevel) -> Option<Short> {
    let memory = level.memory.as_ref()?;
    if memory.under_oom == Some(true) {
        return Some(Short::Out);
    }
    let own = level.pressure.get("memory");
    let (lost, short): (f64, fn(f64) -> Short) = match own {
        Some(own) => (own.full?.avg10_percent, Short::Lost),
        None => (lost_on_machine(node, level)?, Short::LostOnMachine),
    };
    let limits = [memory.high_bytes.number(), memory.limit_bytes.number()];
    let limit = limits.into_iter().flatten().min()?;
    let at_limit = memory.usage_bytes? >= limit - limit / 20;
    (at_limit && lost >= LOST).then(|| short(lost))
}

/// So often in a second a cgroup that reclaims what it needs at once runs into its limit.
const HITS: f64 = 10.0;

/// Of a cgroup of version 1, which has no pressure of its own: the share of time that somebody on the machine waits for memory, where
/// the machine has memory to spare and the cgroup runs into its limit all the time (`memory.failcnt`).
fn lost_on_machine(node: &Node<'_>, level: &CgroupLevel) -> Option<f64> {
    let machine = &node.newest().machine;
    if machine.memory_available_bytes? < machine.memory_total_bytes? / 10 {
        return None;
    }
    let first = node.snapshots[node.window[0]];
    let before = levels(first)
        .into_iter()
        .find(|(_, it)| it.path == level.path)?
        .1;
    let hits = |level: &CgroupLevel| level.memory.as_ref()?.limit_hits;
    let more = u32::try_from(hits(level)?.checked_sub(hits(before)?)?).unwrap_or(u32::MAX);
    let seconds = node
        .newest()
        .capture
        .started_at
        .since(first.capture.started_at);
    let is_often = f64::from(more) >= HITS * seconds.as_secs_f64() && more > 0;
    let some = machine.pressure.get("memory")?.some?;
    is_often.then_some(some.avg10_percent)
}

fn pressed(
    scene: &Scene<'_>,
    node: usize,
    (pointer, level): (&str, &CgroupLevel),
    short: Short,
) -> Option<Verdict> {
    let case = &scene.case;
    let rss = |actor: &usize| {
        let process = case.actors[*actor].process;
        let memory = process.memory.as_ref();
        (
            is_in(process, level),
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
        Short::LostOnMachine(lost) => {
            let words = format!(
                "Memory is at the limit of the cgroup, which it runs into all the time, and on this machine, which has memory to spare, {lost:.0} % of the time somebody waits for memory"
            );
            (State::Slow, format!("{words}; {who} has most."))
        }
    };
    let keys = [
        "memory/limit_hits",
        "memory/usage_bytes",
        "memory/limit_bytes",
        "memory/high_bytes",
        "memory/under_oom",
        "pressure/memory/full/avg10_percent",
    ];
    let numbers = keys
        .iter()
        .filter_map(|key| case.cite_newest(node, &format!("{pointer}/{key}")));
    let on_machine = "/machine/pressure/memory/some/avg10_percent";
    let on_machine =
        matches!(short, Short::LostOnMachine(_)).then(|| case.cite_newest(node, on_machine));
    let claim = scene
        .claim(state, Cause::MemoryPressure)
        .by(largest)
        .shown_by(numbers)
        .shown_by(on_machine.flatten());
    Some(
        claim
            .shown_by(case.cite(largest, "memory/rss_bytes"))
            .say(summary),
    )
}
