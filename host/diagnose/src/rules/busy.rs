//! A loop turns and gets nowhere.

use std::time::Duration;

use super::Rule;
use crate::graph::EdgeKind;
use crate::motion::Seen;
use crate::scene::{Scene, Stall};
use crate::verdict::{Cause, State, Verdict};
use crate::wait::Wait;
use crate::words;

pub(super) const SHARED: Rule = Rule {
    name: "busy-loop",
    needs: "processes that wait for memory they share with one that uses a processor",
    proves: "those that share a lock or barrier have waited for three intervals for the only ones that do not wait for it, which have turned at one line for six",
    refuted_by: "one of them gets on",
    holds: busy,
};

pub(super) const STEPS: Rule = Rule {
    name: "busy-loop-by-steps",
    needs: "a number that a frame counts, seen to grow, and processor time at one line",
    proves: "a process that counted its steps has turned at one line for ten times as long as a step took, and six intervals",
    refuted_by: "it counts on, or is at other lines, or reads, writes or touches new memory",
    holds: stopped_counting,
};

fn busy(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    if !matches!(scene.stall, Stall::Spins(_)) {
        let reason = scene.must_stand().err();
        return Err(reason.unwrap_or_else(|| "no process uses a processor at one line".to_owned()));
    }
    let case = &scene.case;
    let spinning = case.those(|actor| case.actors[actor].seen.is_some_and(|seen| seen.turns()));
    let victims = case.those(|actor| waits_for_one_of(scene, actor, &spinning));
    let Some(first) = victims.first() else {
        return Err(
            "nobody waits for memory that is shared with one that uses a processor".to_owned(),
        );
    };
    let edge = scene.graph.edge(*first);
    let is_waker = |actor: &usize| edge.is_some_and(|edge| edge.wakers.contains(actor));
    let Some(culprit) = spinning.into_iter().find(is_waker) else {
        return Err("nobody who turns could wake those who wait".to_owned());
    };
    let summary = format!(
        "{} uses a processor and turns{} without getting on; {} wait{} for it{}.",
        words::who(case, culprit),
        words::at_actor(case, culprit),
        words::many(case, &victims),
        if victims.len() == 1 { "s" } else { "" },
        words::meeting(case, *first),
    );
    let turning = ["proc/utime_ticks", "pyspy/traces/0/frames/0/line"];
    let turning = turning.iter().filter_map(|key| case.cite(culprit, key));
    let seen = victims
        .iter()
        .take(4)
        .flat_map(|victim| scene.standing(*victim));
    let claim = scene
        .claim(State::Hung, Cause::BusyLoop)
        .by(culprit)
        .holding_up(&victims);
    let claim = claim
        .shown_by(turning)
        .shown_by(scene.graph.evidence(*first));
    Ok(vec![claim.shown_by(seen).say(summary)])
}

/// Whether a process has waited for shared memory all the time, and all that could wake it turn, or wait for children.
fn waits_for_one_of(scene: &Scene<'_>, actor: usize, spinning: &[usize]) -> bool {
    let case = &scene.case;
    let edge = scene
        .graph
        .edge(actor)
        .filter(|edge| edge.kind == EdgeKind::Shared && !edge.outside);
    let turns = |waker: &usize| spinning.contains(waker);
    let fits =
        |waker: &usize| turns(waker) || matches!(case.actors[*waker].wait, Wait::Child { .. });
    !case.actors[actor].main_ran()
        && case.node_of(actor).is_patient()
        && edge.is_some_and(|edge| edge.wakers.iter().any(turns) && edge.wakers.iter().all(fits))
}

/// How many steps' time, and how many intervals, a process turns before that is a matter.
const STEP_TIMES: u32 = 10;
const INTERVALS: f64 = 6.0;

fn stopped_counting(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let none = || "no process that counted its steps turns at one line instead".to_owned();
    if !matches!(scene.stall, Stall::Spins(_)) {
        return Err(none());
    }
    let case = &scene.case;
    let long = |actor: usize, seen: &Seen| {
        let interval = case
            .node_of(actor)
            .newest()
            .capture
            .interval_s
            .unwrap_or(0.0);
        let least = Duration::try_from_secs_f64(interval * INTERVALS).unwrap_or(Duration::MAX);
        let usual = seen.step_time.saturating_mul(STEP_TIMES);
        // One that is asleep at a look works by turns.
        let turns = seen.turns() && case.actors[actor].wait != Wait::Sleep;
        let is_long = seen.step_since >= usual && seen.step_since >= least;
        turns && !seen.step_time.is_zero() && is_long
    };
    let turns = |actor: usize| {
        let seen = case.actors[actor].seen;
        seen.is_some_and(|seen| long(actor, &seen))
    };
    let turning = case.those(turns);
    let Some(&culprit) = turning.first() else {
        return Err(none());
    };
    let process = case.actors[culprit].process;
    let last = process.steps.len().saturating_sub(1);
    let step = process.steps.get(last).map_or_else(String::new, |step| {
        format!(" {} {}", words::safe(&step.name), step.value)
    });
    let summary = format!(
        "{} uses a processor and turns{}; it has been at{step} for far longer than a step took.",
        words::who(case, culprit),
        words::at_actor(case, culprit),
    );
    let keys = [
        "proc/utime_ticks".to_owned(),
        format!("steps/{last}/value"),
        "pyspy/traces/0/frames/0/line".to_owned(),
    ];
    let evidence = keys.iter().filter_map(|key| case.cite(culprit, key));
    let victims = scene.victims(&[culprit]);
    let claim = scene
        .claim(State::Hung, Cause::BusyLoop)
        .by(culprit)
        .holding_up(&victims);
    Ok(vec![claim.shown_by(evidence).say(summary)])
}
