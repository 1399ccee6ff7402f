//! How often and how closely we may look, so that watching costs no more than the budget: pure arithmetic, no clock.
//!
//! What is spent beyond the budget is a debt, which is paid off over [`INSTALMENTS`] cycles; what is not spent is not saved up.
//! The next interval is the one in which the budget pays a cycle as dear as the last few, and an instalment. It is never
//! shorter than the default interval and at most [`LONGEST`] times as long. When the budget does not pay for a cycle even then,
//! the next level of detail is left out. It comes back when what it cost before it was left out would fit easily; that
//! figure is believed less with every cycle, so that in the end it is tried.

use std::collections::VecDeque;
use std::time::Duration;

use model::Detail;

/// The longest interval in default intervals: 20 minutes at the default of two.
pub(crate) const LONGEST: u32 = 10;
/// Over how many cycles a debt is paid off.
const INSTALMENTS: f64 = 10.0;
/// A cycle is expected to cost as much as so many before it did on average.
const REMEMBERED: usize = 4;
/// So many cycles that are too dear, each at the longest interval and one after the other, cost a level of detail.
const PATIENCE: u32 = 2;
/// A level comes back when it is expected to cost at most this share of what the budget pays at the longest interval.
const EASILY: f64 = 0.7;
/// What is left of the belief in an old figure after one more cycle.
const FADING: f64 = 0.98;

/// Decides the interval and the level of detail from what cycles have cost.
#[derive(Debug)]
pub(crate) struct Governor {
    /// The budget as a share of one core.
    budget: f64,
    /// CPU time spent beyond the budget, seconds.
    debt: f64,
    /// CPU time of the latest cycles at this level, seconds.
    costs: VecDeque<f64>,
    default: Duration,
    interval: Duration,
    /// The levels that make a difference here, the fullest first.
    levels: Vec<Detail>,
    /// What was left out, in this order; the level in force is the one after so many.
    left_out: Vec<LeftOut>,
    too_dear: u32,
}

/// What is known of the level above.
#[derive(Debug)]
struct LeftOut {
    /// What a cycle cost there, seconds; fades.
    above: f64,
    /// What a cycle cost after it was left out, seconds, once that is known.
    below: Option<f64>,
}

impl Governor {
    /// Makes one for a `budget` in shares of one core, above zero. `levels` begins with the fullest.
    pub(crate) fn new(budget: f64, default: Duration, levels: Vec<Detail>) -> Self {
        Self {
            budget,
            debt: 0.0,
            costs: VecDeque::new(),
            default,
            interval: default,
            levels,
            left_out: Vec::new(),
            too_dear: 0,
        }
    }

    /// Returns the time to the next cycle.
    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns how closely to look.
    pub(crate) fn detail(&self) -> Detail {
        let level = self.levels.get(self.left_out.len());
        level.copied().unwrap_or_default()
    }

    /// Takes note of what is spent once and not in each cycle, such as the start: it is paid off, no more.
    pub(crate) fn once(&mut self, cost: Duration) {
        self.debt += cost.as_secs_f64();
    }

    /// Takes note of a cycle that was due, with all CPU time that was spent in `period`, the time since the one before, and
    /// decides what follows.
    pub(crate) fn cycle(&mut self, cost: Duration, period: Duration) {
        let cost = cost.as_secs_f64();
        self.debt = (self.debt + cost - self.budget * period.as_secs_f64()).max(0.0);
        if self.costs.len() == REMEMBERED {
            self.costs.pop_front();
        }
        self.costs.push_back(cost);
        let was_longest = self.interval >= self.longest();
        self.choose_level(was_longest);
        self.choose_interval();
    }

    fn longest(&self) -> Duration {
        self.default * LONGEST
    }

    /// What the budget pays for one cycle at the longest interval, seconds.
    fn allowed(&self) -> f64 {
        self.budget * self.longest().as_secs_f64()
    }

    /// What a cycle at this level is expected to cost, seconds; nothing is known of a level that is new.
    fn expected(&self) -> Option<f64> {
        let count = u32::try_from(self.costs.len())
            .ok()
            .filter(|&count| count > 0)?;
        Some(self.costs.iter().sum::<f64>() / f64::from(count))
    }

    fn choose_level(&mut self, was_longest: bool) {
        let (allowed, remembered) = (self.allowed(), self.costs.len());
        let Some(expected) = self.expected() else {
            return;
        };
        let dear = was_longest && expected > allowed;
        self.too_dear = if dear { self.too_dear + 1 } else { 0 };
        if self.too_dear >= PATIENCE && self.left_out.len() + 1 < self.levels.len() {
            if let Some(last) = self.left_out.last_mut() {
                last.below.get_or_insert(expected);
            }
            self.left_out.push(LeftOut {
                above: expected,
                below: None,
            });
            self.settle_anew();
            return;
        }
        let Some(last) = self.left_out.last_mut() else {
            return;
        };
        last.above *= FADING;
        if remembered < REMEMBERED {
            return;
        }
        let below = *last.below.get_or_insert(expected);
        // With fewer processes both levels cost less.
        let scale = (expected / below.max(f64::MIN_POSITIVE)).min(1.0);
        if (last.above * scale).max(expected) <= allowed * EASILY {
            self.left_out.pop();
            self.settle_anew();
        }
    }

    /// What the levels before cost says nothing of this one.
    fn settle_anew(&mut self) {
        self.costs.clear();
        self.too_dear = 0;
    }

    fn choose_interval(&mut self) {
        // Nothing is known of a new level: it is tried at the interval in force.
        let Some(expected) = self.expected() else {
            return;
        };
        let longest = self.longest();
        let seconds = (expected + self.debt / INSTALMENTS) / self.budget;
        let milliseconds = (seconds.min(longest.as_secs_f64()) * 1e3).ceil();
        let wanted = Duration::from_secs_f64(milliseconds / 1e3);
        self.interval = wanted.clamp(self.default, longest);
    }
}

#[cfg(test)]
mod tests;
