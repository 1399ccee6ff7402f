//! What the collector has spent, cycle by cycle, and what follows from it: the next interval and the level of detail.

use std::time::Duration;

use capture::Meter;
use model::{Detail, Spending, Trigger};
use tokio::time::Instant;

use crate::governor::Governor;
use crate::pipeline::{Cause, Kept};

/// How often to look, as the settings and options say.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// The budget, percent of one core, and the levels of detail that make a difference; none where the interval is set.
    pub(crate) budget: Option<(f64, Vec<Detail>)>,
    /// The interval that is set, or the default one.
    pub(crate) interval: Duration,
}

/// Keeps the accounts of one collector.
#[derive(Debug)]
pub(crate) struct Ledger {
    begun: Instant,
    governor: Option<Governor>,
    longest_cycle: Option<Duration>,
    meter: Meter,
    pace: Pace,
    previous_bytes: Option<u64>,
    recent_percent: Option<f64>,
    /// When the latest cycle ended, and all CPU time that had been used by then.
    settled: Option<(Instant, Duration)>,
    /// The same of the latest cycle that was due; what was spent on others since is added.
    settled_due: (Instant, Duration),
    /// What the settings and options say; `pace` is what somebody asked for since.
    settings: Pace,
    turn: (Trigger, Instant),
    written_bytes: u64,
}

impl Ledger {
    /// Begins at `now`.
    pub(crate) fn new(pace: Pace, meter: Meter, now: Instant) -> Self {
        Self {
            begun: now,
            governor: governor(&pace),
            longest_cycle: None,
            meter,
            pace: pace.clone(),
            previous_bytes: None,
            recent_percent: None,
            settled: None,
            settled_due: (now, Duration::ZERO),
            settings: pace,
            turn: (Trigger::Start, now),
            written_bytes: 0,
        }
    }

    /// Looks each `interval` from here on, whatever it costs; none: as often as the settings say.
    pub(crate) fn set_interval(&mut self, interval: Option<Duration>) {
        self.pace = interval.map_or_else(
            || self.settings.clone(),
            |interval| Pace {
                budget: None,
                interval,
            },
        );
        self.governor = governor(&self.pace);
    }

    /// Returns the interval in force.
    pub(crate) fn interval(&self) -> Duration {
        let governor = self.governor.as_ref();
        governor.map_or(self.pace.interval, Governor::interval)
    }

    /// Returns whether the budget rules the interval.
    pub(crate) fn has_budget(&self) -> bool {
        self.governor.is_some()
    }

    /// Begins a cycle.
    pub(crate) fn begin(&mut self, trigger: Trigger, missed_cycles: u64, now: Instant) -> Cause {
        self.turn = (trigger, now);
        Cause {
            interval: Some(self.interval()),
            missed_cycles,
            paused: None,
            spending: Some(self.spending()),
            trigger,
        }
    }

    /// Ends the cycle; `kept` is what was written, if anything was.
    pub(crate) fn end(&mut self, kept: Option<&Kept>, now: Instant) {
        let (trigger, begun) = self.turn;
        let cycle = now.saturating_duration_since(begun);
        self.longest_cycle = self.longest_cycle.max(Some(cycle));
        if let Some(bytes) = kept.and_then(|kept| kept.written_bytes) {
            self.previous_bytes = Some(bytes);
            self.written_bytes = self.written_bytes.saturating_add(bytes);
        }
        if let Some(used) = self.meter.read() {
            self.settle(trigger, used, now);
        }
    }

    /// Books all CPU time `used` so far. Snapshots that somebody asked for are no reason to look less often.
    fn settle(&mut self, trigger: Trigger, used: Duration, now: Instant) {
        let (at, before) = self.settled.unwrap_or((self.begun, Duration::ZERO));
        let cost = used.saturating_sub(before);
        self.recent_percent = percent(cost, now.saturating_duration_since(at));
        self.settled = Some((now, used));
        let (due_at, due_used) = self.settled_due;
        let due_cost = used.saturating_sub(due_used);
        match (trigger, &mut self.governor) {
            (Trigger::Start, Some(governor)) => governor.once(due_cost),
            (Trigger::Interval, Some(governor)) => {
                governor.cycle(due_cost, now.saturating_duration_since(due_at));
            }
            (Trigger::Start | Trigger::Interval, None) => {}
            _ => {
                self.settled_due.1 += cost;
                return;
            }
        }
        self.settled_due = (now, used);
    }

    fn spending(&self) -> Spending {
        let used = self
            .settled
            .and_then(|(at, used)| percent(used, at.saturating_duration_since(self.begun)));
        Spending {
            budget_percent: self.pace.budget.as_ref().map(|(percent, _)| *percent),
            detail: self
                .governor
                .as_ref()
                .map(Governor::detail)
                .unwrap_or_default(),
            longest_cycle_ms: self.longest_cycle.map(|it| rounded(it.as_secs_f64() * 1e3)),
            previous_snapshot_bytes: self.previous_bytes,
            recent_percent: self.recent_percent,
            used_percent: used,
            wanted_interval_s: Some(self.pace.interval.as_secs_f64()),
            written_bytes: self.written_bytes,
        }
    }
}

fn governor(pace: &Pace) -> Option<Governor> {
    let (percent, levels) = pace.budget.clone()?;
    Some(Governor::new(percent / 100.0, pace.interval, levels))
}

/// `used` in percent of one core over `period`, to a thousandth.
fn percent(used: Duration, period: Duration) -> Option<f64> {
    let share = used.as_secs_f64() / period.as_secs_f64() * 100.0;
    share.is_finite().then(|| rounded(share))
}

fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use capture::{Machine, StackSettings, StackSource};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const DEFAULT: Duration = Duration::from_mins(2);

    fn ledger(budget: Option<f64>, now: Instant) -> Ledger {
        let machine = Machine::local(StackSettings {
            source: StackSource::Off,
            timeout: SECOND,
            nonblocking: true,
            max_parallel: 1,
        });
        let pace = Pace {
            budget: budget.map(|percent| (percent, Detail::ALL.to_vec())),
            interval: DEFAULT,
        };
        Ledger::new(pace, machine.meter(), now)
    }

    #[test]
    fn a_cycle_beyond_the_budget_makes_the_next_one_later() {
        let now = Instant::now();
        let mut ledger = ledger(Some(1.0), now);
        ledger.settle(Trigger::Start, SECOND, now + SECOND);
        assert_eq!(ledger.interval(), DEFAULT);
        ledger.settle(Trigger::Interval, 4 * SECOND, now + SECOND + DEFAULT);
        assert!(ledger.interval() >= Duration::from_mins(5));
        let spending = ledger.spending();
        assert_eq!(spending.recent_percent, Some(2.5));
        assert_eq!(spending.used_percent, Some(3.306)); // 4 of 121 s
        assert_eq!(spending.budget_percent, Some(1.0));
        assert_eq!(spending.wanted_interval_s, Some(120.0));
    }

    #[test]
    fn what_was_asked_for_and_what_an_interval_costs_is_only_reported() {
        let now = Instant::now();
        let mut governed = ledger(Some(1.0), now);
        governed.settle(Trigger::Start, SECOND, now + SECOND);
        governed.settle(Trigger::Signal, 30 * SECOND, now + 30 * SECOND);
        governed.settle(Trigger::Burst, 60 * SECOND, now + 60 * SECOND);
        governed.settle(Trigger::Interval, 61 * SECOND, now + SECOND + DEFAULT);
        assert_eq!(governed.interval(), DEFAULT);
        assert_eq!(governed.spending().used_percent, Some(50.413)); // 61 of 121 s

        let mut fixed = ledger(None, now);
        fixed.settle(Trigger::Start, SECOND, now + SECOND);
        for cycle in 1..20 {
            fixed.settle(
                Trigger::Interval,
                100 * cycle * SECOND,
                now + cycle * DEFAULT,
            );
        }
        assert_eq!(fixed.interval(), DEFAULT);
        assert_eq!(fixed.spending().detail, Detail::Full);
        assert_eq!(fixed.spending().budget_percent, None);
    }

    #[test]
    fn an_interval_that_is_asked_for_holds_until_the_settings_are_asked_for() {
        let now = Instant::now();
        let mut ledger = ledger(Some(1.0), now);
        ledger.set_interval(Some(SECOND));
        ledger.settle(Trigger::Interval, 100 * SECOND, now + SECOND);
        assert_eq!(ledger.interval(), SECOND);
        assert_eq!(ledger.spending().budget_percent, None);
        ledger.set_interval(None);
        assert_eq!(ledger.interval(), DEFAULT);
        assert_eq!(ledger.spending().budget_percent, Some(1.0));
    }

    #[test]
    fn the_meter_sees_the_work_of_this_process() {
        let now = Instant::now();
        let mut ledger = ledger(None, now);
        let before = ledger.meter.read().unwrap();
        let worked = std::time::Instant::now();
        while worked.elapsed() < 2 * SECOND && ledger.meter.read().unwrap() <= before {}
        assert!(ledger.meter.read().unwrap() > before);
    }
}
