//! The governor in worlds that are made up: no clock, no process.

use proptest::prelude::*;

use super::*;

const DEFAULT: Duration = Duration::from_mins(2);
const ONE_PERCENT: f64 = 0.01;

fn governor() -> Governor {
    Governor::new(ONE_PERCENT, DEFAULT, Detail::ALL.to_vec())
}

/// Runs `count` cycles whose cost in seconds follows from the level and the cycle's number; returns the interval and level
/// that each was taken with, and the cost.
fn run(
    governor: &mut Governor,
    count: usize,
    cost: impl Fn(Detail, usize) -> f64,
) -> Vec<(Duration, Detail, f64)> {
    let cycle = |number| {
        let taken = (governor.interval(), governor.detail());
        let cost = cost(taken.1, number);
        governor.cycle(Duration::from_secs_f64(cost), taken.0);
        (taken.0, taken.1, cost)
    };
    (0..count).map(cycle).collect()
}

/// The share of one core that was used.
fn share(cycles: &[(Duration, Detail, f64)]) -> f64 {
    let cost: f64 = cycles.iter().map(|(_, _, cost)| cost).sum();
    let time: f64 = cycles.iter().map(|(time, _, _)| time.as_secs_f64()).sum();
    cost / time
}

/// How much of a cycle's cost is left at a level, when Python stacks are most of it.
fn left(level: Detail) -> f64 {
    match level {
        Detail::Full => 1.0,
        Detail::WithoutSharedMemory => 0.95,
        Detail::WithoutThreadDetail => 0.9,
        Detail::WithoutConnections => 0.8,
        Detail::WithoutPythonStacks => 0.1,
    }
}

/// How often the level comes back after it was left out.
fn returns(cycles: &[(Duration, Detail, f64)]) -> usize {
    cycles.windows(2).filter(|two| two[1].1 < two[0].1).count()
}

#[test]
fn what_the_budget_pays_changes_nothing() {
    let mut governor = governor();
    governor.once(Duration::from_secs(1));
    let cycles = run(&mut governor, 100, |_, _| 1.0); // 1.2 s are allowed
    assert!(
        cycles
            .iter()
            .all(|(interval, level, _)| (*interval, *level) == (DEFAULT, Detail::Full))
    );
}

#[test]
fn a_dear_start_is_paid_off_in_instalments_and_costs_no_detail() {
    let mut governor = governor();
    governor.once(Duration::from_secs(30));
    let cycles = run(&mut governor, 200, |_, _| 1.0);
    let longest = cycles.iter().map(|(interval, _, _)| *interval).max();
    assert!(longest > Some(DEFAULT) && longest < Some(4 * DEFAULT));
    assert!(cycles.iter().all(|(_, level, _)| *level == Detail::Full));
    assert_eq!(governor.interval(), DEFAULT);
}

#[test]
fn first_the_interval_is_stretched_then_detail_is_left_out_in_order() {
    let mut governor = governor();
    let cycles = run(&mut governor, 4, |_, _| 3.0);
    assert!(cycles.iter().all(|(_, level, _)| *level == Detail::Full));
    assert!(governor.interval() >= Duration::from_mins(5));
    // 12 s are allowed at the longest interval.
    let cycles = run(&mut governor, 40, |level, _| 50.0 * left(level));
    let mut levels: Vec<Detail> = cycles.iter().map(|(_, level, _)| *level).collect();
    let first_without = levels.iter().position(|level| *level > Detail::Full);
    let before = &cycles[..first_without.unwrap()];
    assert_eq!(before.last().unwrap().0, DEFAULT * LONGEST);
    assert!(levels.is_sorted());
    levels.dedup();
    assert_eq!(levels, Detail::ALL);
}

#[test]
fn levels_that_make_no_difference_are_passed_over() {
    let levels = vec![Detail::Full, Detail::WithoutConnections];
    let mut governor = Governor::new(ONE_PERCENT, DEFAULT, levels);
    run(&mut governor, 40, |_, _| 1000.0);
    assert_eq!(governor.detail(), Detail::WithoutConnections);
    assert_eq!(governor.interval(), DEFAULT * LONGEST);
}

#[test]
fn detail_and_interval_come_back_when_the_task_has_become_small() {
    let mut governor = governor();
    run(&mut governor, 60, |level, _| 50.0 * left(level));
    assert_eq!(governor.detail(), Detail::WithoutPythonStacks);
    let cycles = run(&mut governor, 40, |level, _| 0.5 * left(level));
    assert!(
        cycles
            .iter()
            .map(|(_, level, _)| *level)
            .is_sorted_by(|a, b| a >= b)
    );
    assert_eq!(
        (governor.detail(), governor.interval()),
        (Detail::Full, DEFAULT)
    );
}

#[test]
fn what_became_cheap_unseen_is_tried_again_in_the_end() {
    let mut governor = governor();
    run(&mut governor, 60, |level, _| 50.0 * left(level));
    // The cost of the level in force says nothing of it: that stays.
    let cycles = run(&mut governor, 400, |_, _| 5.0);
    assert_eq!(returns(&cycles), 4);
    assert_eq!(governor.detail(), Detail::Full);
}

proptest! {
    #[test]
    fn interval_and_level_stay_within_their_bounds(
        costs in prop::collection::vec((0.0..100.0_f64, 0.0..10_000.0_f64), 1..200),
        budget in 0.00001..1.0_f64,
    ) {
        let mut governor = Governor::new(budget, DEFAULT, Detail::ALL.to_vec());
        for (cost, period) in costs {
            governor.cycle(Duration::from_secs_f64(cost), Duration::from_secs_f64(period));
            prop_assert!((DEFAULT..=DEFAULT * LONGEST).contains(&governor.interval()));
            prop_assert!(governor.left_out.len() < Detail::ALL.len());
        }
    }

    #[test]
    fn over_time_no_more_is_spent_than_the_budget_where_the_last_level_can_be_paid(
        full in 0.01..110.0_f64, // a tenth of it is left at the last level, and 12 s are allowed
        start in 0.0..60.0_f64,
        noise in prop::collection::vec(0.9..1.0_f64, 7),
    ) {
        let mut governor = governor();
        governor.once(Duration::from_secs_f64(start));
        let cycles = run(&mut governor, 1000, |level, number| full * left(level) * noise[number % 7]);
        let used = share(&cycles[500..]);
        // The last attempt to look closer may not be paid off yet.
        prop_assert!(used <= ONE_PERCENT * 1.05, "{used}");
    }

    #[test]
    fn a_level_does_not_come_and_go_with_each_cycle(
        full in 0.01..1000.0_f64,
        noise in prop::collection::vec(0.5..1.5_f64, 7),
    ) {
        let mut governor = governor();
        let cycles = run(&mut governor, 1000, |level, number| full * left(level) * noise[number % 7]);
        // Each takes its time to be left out and to come back.
        prop_assert!(returns(&cycles) <= 1000 / 10, "{}", returns(&cycles));
        let mut changes = cycles.windows(2).enumerate().filter(|(_, two)| two[0].1 != two[1].1);
        let mut last = None;
        for (at, two) in &mut changes {
            let comes_back = two[1].1 < two[0].1;
            if let Some((then, came_back)) = last && comes_back != came_back {
                let settled = if comes_back { REMEMBERED } else { PATIENCE as usize };
                prop_assert!(at - then >= settled, "{at} {then}");
            }
            last = Some((at, comes_back));
        }
    }
}
