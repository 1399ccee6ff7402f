//! Memory ran out, or is about to.

use std::collections::HashMap;

use model::{CgroupLevel, Snapshot};

use super::Rule;
use crate::case::Fate;
use crate::scene::{Scene, Stall};
use crate::verdict::{Cause, Evidence, State, Verdict};
use crate::words;

pub(super) const KILLED: Rule = Rule {
    name: "out-of-memory",
    needs: "how many processes the kernel has killed in the task's cgroups, and which processes are gone",
    proves: "a process was killed at the memory limit of its cgroup, and the task stands still since",
    refuted_by: "the count has not grown, or the task gets on",
    holds: killed,
};

pub(super) const PRESSURE: Rule = Rule {
    name: "memory-pressure",
    needs: "usage and limit of memory, and how much time was lost waiting for memory, in two snapshots",
    proves: "the cgroup is at its limit and its processes lose a good part of their time to that",
    refuted_by: "there is room below the limit, or no time is lost",
    holds: pressure,
};

/// Every cgroup of a snapshot, with its pointer and the processes that are known to be in it.
fn levels(snapshot: &Snapshot) -> Vec<(String, &CgroupLevel)> {
    let own = snapshot.cgroup.chain.iter().enumerate();
    let own = own.map(|(index, level)| (format!("/cgroup/chain/{index}"), level));
    let others = snapshot
        .cgroup
        .others
        .iter()
        .enumerate()
        .flat_map(|(other, it)| {
            let chain = it.chain.iter().enumerate();
            chain
                .map(move |(index, level)| (format!("/cgroup/others/{other}/chain/{index}"), level))
        });
    own.chain(others).collect()
}

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
                if !matches!(scene.stall, Stall::Ended) {
                    scene.must_not_move()?;
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
    let name = level
        .path
        .strip_prefix("/sys/fs/cgroup")
        .unwrap_or(&level.path);
    let last = name.rsplit('/').next().unwrap_or(name);
    // Of those that were last seen just before, and were in that cgroup, the largest.
    let mut gone: Vec<usize> = Vec::new();
    for (index, actor) in case.actors.iter().enumerate() {
        let in_it = last.is_empty() || actor.process.cgroup.iter().any(|line| line.contains(last));
        let went = actor.fate != Fate::Alive && actor.snapshot + 1 >= position;
        if actor.node == node && went && in_it && !actor.process.cgroup.is_empty() {
            gone.push(index);
        }
    }
    let zombies = case.actors.iter().enumerate().filter(|(_, actor)| {
        actor.node == node
            && actor.fate == Fate::Zombie
            && actor.process.proc.exit_signal == Some(9)
    });
    gone.extend(zombies.map(|(index, _)| index));
    let size = |actor: &usize| {
        let process = case.actors[*actor].process;
        process.memory.as_ref().map_or(0, |memory| memory.rss_bytes)
    };
    let victim = gone
        .iter()
        .copied()
        .max_by_key(|actor| (case.actors[*actor].snapshot <= position, size(actor)));
    let parent = |actor: usize| {
        case.actors[actor]
            .parent
            .filter(|it| case.actors[*it].fate == Fate::Alive)
    };
    let limit = level
        .memory
        .as_ref()
        .and_then(|memory| memory.limit_bytes.number());
    let at = limit.map_or_else(String::new, |limit| {
        format!(" at its limit of {limit} bytes")
    });
    let who = victim.map_or_else(|| "a process".to_owned(), |actor| words::who(case, actor));
    let waiting = victim.and_then(parent).map_or_else(String::new, |parent| {
        format!(
            "; {} waits{}",
            words::who(case, parent),
            words::at_actor(case, parent)
        )
    });
    let summary =
        format!("{who} was killed because the memory of its cgroup ran out{at}{waiting}.");
    let numbers = ["oom_kills", "limit_bytes", "usage_bytes"];
    let cite = |position: usize, key: &str| {
        case.cite_at(node, position, &format!("{pointer}/memory/{key}"))
    };
    let mut evidence: Vec<Evidence> = numbers
        .iter()
        .filter_map(|key| cite(position, key))
        .collect();
    evidence.extend(victim.and_then(|actor| case.cite(actor, "identity")));
    let mut claim = scene
        .claim(State::Hung, Cause::OutOfMemory)
        .shown_by(evidence);
    if let Some(actor) = victim {
        let waiting: Vec<usize> = parent(actor).into_iter().collect();
        let ranks = scene.victims(&[actor]);
        claim = claim
            .by(actor)
            .holding_up(if ranks.is_empty() { &waiting } else { &ranks });
    }
    let mut verdict = claim.say(summary);
    if scene.stall == Stall::Ended {
        verdict.verdict = State::Failed;
    }
    verdict
}

/// Percent of the last ten seconds that all lost to waiting for memory, from which on it is a matter.
const LOST: f64 = 20.0;

fn pressure(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    for (node, it) in case.nodes.iter().enumerate() {
        let newest = it.newest();
        for (pointer, level) in levels(newest) {
            let Some(memory) = &level.memory else {
                continue;
            };
            let lost = level
                .pressure
                .get("memory")
                .and_then(|it| it.full.as_ref())
                .map(|it| it.avg10_percent);
            let limit = [memory.high_bytes.number(), memory.limit_bytes.number()]
                .into_iter()
                .flatten()
                .min();
            let at_limit = limit
                .zip(memory.usage_bytes)
                .is_some_and(|(limit, usage)| usage >= limit - limit / 20);
            let out = memory.under_oom == Some(true);
            if !out && !(at_limit && lost.is_some_and(|lost| lost >= LOST)) {
                continue;
            }
            let mut alive: Vec<usize> = case
                .alive()
                .filter(|(_, it)| it.node == node)
                .map(|(index, _)| index)
                .collect();
            alive.sort_by_key(|actor| {
                let memory = case.actors[*actor].process.memory.as_ref();
                (
                    std::cmp::Reverse(memory.map_or(0, |it| it.rss_bytes)),
                    *actor,
                )
            });
            let Some(&largest) = alive.first() else {
                continue;
            };
            let state = if out && matches!(scene.stall, Stall::Stands) {
                State::Hung
            } else {
                State::Slow
            };
            let summary = if out {
                format!(
                    "Memory has run out and nothing is killed for it: all that ask for more wait; {} has most.",
                    words::who(case, largest)
                )
            } else {
                format!(
                    "Memory is at its limit, and {:.0} % of the time is lost to that; {} has most.",
                    lost.unwrap_or(0.0),
                    words::who(case, largest)
                )
            };
            let keys = [
                "memory/usage_bytes",
                "memory/limit_bytes",
                "memory/high_bytes",
                "memory/under_oom",
                "pressure/memory/full/avg10_percent",
            ];
            let evidence = keys
                .iter()
                .filter_map(|key| case.cite_newest(node, &format!("{pointer}/{key}")));
            let claim = scene
                .claim(state, Cause::MemoryPressure)
                .by(largest)
                .shown_by(evidence.collect::<Vec<_>>());
            return Ok(vec![
                claim
                    .shown_by(case.cite(largest, "memory/rss_bytes"))
                    .say(summary),
            ]);
        }
    }
    Err("no cgroup of the task is at its memory limit and loses time".to_owned())
}
