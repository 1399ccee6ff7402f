//! The processor quota is used up again and again.

use std::collections::HashMap;
use std::time::Duration;

use model::{CgroupCpu, Snapshot};

use super::{Rule, cgroups};
use crate::case::Case;
use crate::scene::{Scene, Stall};
use crate::verdict::{Cause, Evidence, State, Verdict};
use crate::words;

pub(super) const RULE: Rule = Rule {
    name: "cpu-throttled",
    needs: "the counts of quota periods of a cgroup in two snapshots",
    proves: "in most periods the quota was used up and threads were held back, for a tenth of the time or more",
    refuted_by: "most periods passed without that",
    holds,
};

/// Parts of the periods, in hundredths, from which on it is a matter.
const THROTTLED: u64 = 40;
/// Less than one part in so many of the time is no matter, however many periods it was lost in.
const LOST: u32 = 10;
/// Fewer periods than this prove nothing.
const PERIODS: u64 = 5;

struct Level<'a> {
    pointer: String,
    path: &'a str,
    cpu: &'a CgroupCpu,
}

fn levels(snapshot: &Snapshot) -> Vec<Level<'_>> {
    let with_cpu = cgroups::levels(snapshot)
        .into_iter()
        .filter_map(|(pointer, level)| {
            let (path, cpu) = (level.path.as_str(), level.cpu.as_ref()?);
            Some(Level { pointer, path, cpu })
        });
    with_cpu.collect()
}

fn holds(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    if scene.stall == Stall::Ended {
        return scene.must_stand().map(|()| Vec::new());
    }
    let case = &scene.case;
    for (node, it) in case.nodes.iter().enumerate() {
        let first = it.snapshots[it.window[0]];
        let before: HashMap<&str, &CgroupCpu> = levels(first)
            .into_iter()
            .map(|level| (level.path, level.cpu))
            .collect();
        for level in levels(it.newest()) {
            let Some(earlier) = before.get(level.path) else {
                continue;
            };
            let grown = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
            let periods = grown(level.cpu.periods, earlier.periods).unwrap_or(0);
            let throttled =
                grown(level.cpu.throttled_periods, earlier.throttled_periods).unwrap_or(0);
            let lost = grown(level.cpu.throttled_usec, earlier.throttled_usec);
            let elapsed = it
                .newest()
                .capture
                .started_at
                .since(first.capture.started_at);
            let is_little =
                lost.is_some_and(|lost| Duration::from_micros(lost).saturating_mul(LOST) < elapsed);
            if periods >= PERIODS
                && !is_little
                && throttled.saturating_mul(100) >= periods.saturating_mul(THROTTLED)
            {
                return Ok(vec![found(scene, node, &level, (throttled, periods))]);
            }
        }
    }
    Err("no cgroup of the task used up its processor quota in most periods".to_owned())
}

fn found(
    scene: &Scene<'_>,
    node: usize,
    level: &Level<'_>,
    (throttled, periods): (u64, u64),
) -> Verdict {
    let case = &scene.case;
    let culprit = busiest(case, node, level.path);
    let quota = match (level.cpu.quota_usec.number(), level.cpu.period_usec) {
        (Some(quota), Some(period)) if period > 0 => {
            format!(
                " of {} % of one processor",
                quota.saturating_mul(100) / period
            )
        }
        _ => String::new(),
    };
    let who = culprit.map_or_else(|| "The task".to_owned(), |actor| words::who(case, actor));
    let summary = format!(
        "{who} gets on but is held back: its cgroup used up its quota{quota} in {throttled} of {periods} periods."
    );
    let keys = [
        "quota_usec",
        "period_usec",
        "periods",
        "throttled_periods",
        "throttled_usec",
    ];
    let evidence = keys
        .iter()
        .filter_map(|key| case.cite_newest(node, &format!("{}/cpu/{key}", level.pointer)));
    let mut claim = scene
        .claim(State::Slow, Cause::CpuThrottled)
        .shown_by(evidence.collect::<Vec<Evidence>>());
    if let Some(actor) = culprit {
        claim = claim
            .by(actor)
            .shown_by(case.cite(actor, "proc/utime_ticks"));
    }
    claim.say(summary)
}

/// The process that has used most of a processor in that cgroup, where that is known of all that are in it.
fn busiest(case: &Case<'_>, node: usize, path: &str) -> Option<usize> {
    let last = path.rsplit('/').next().unwrap_or(path);
    let others = &case.nodes[node].newest().cgroup.others;
    let moved: Vec<_> = others
        .iter()
        .filter(|other| other.chain.iter().any(|level| level.path == path))
        .flat_map(|other| &other.processes)
        .collect();
    let on_node = case.alive().filter(|(_, actor)| actor.node == node);
    let mut inside: Vec<usize> = on_node
        .filter(|(_, actor)| {
            moved.contains(&&actor.process.identity)
                || (moved.is_empty()
                    && actor.process.cgroup.iter().any(|line| line.ends_with(last)))
        })
        .map(|(index, _)| index)
        .collect();
    if inside.is_empty() {
        inside = case
            .alive()
            .filter(|(_, actor)| actor.node == node)
            .map(|(index, _)| index)
            .collect();
    }
    let ticks = |actor: &usize| {
        let proc = &case.actors[*actor].process.proc;
        Some(proc.utime_ticks?.saturating_add(proc.stime_ticks?))
    };
    // Of whom it is not known may have used most.
    if inside.iter().any(|actor| ticks(actor).is_none()) {
        return None;
    }
    inside
        .into_iter()
        .max_by_key(|actor| (ticks(actor), std::cmp::Reverse(*actor)))
}
