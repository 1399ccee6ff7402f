//! When the next cycle is due: deadlines, those that were missed, and pauses.

use std::time::Duration;

use model::Trigger;
use tokio::time::Instant;

/// When the next cycle is due. Deadlines are whole intervals apart, whatever a cycle takes; those that pass while a cycle
/// is at work are missed, not caught up.
#[derive(Debug)]
pub(crate) struct Schedule {
    due: Instant,
    /// A look before it, because something is worth a closer one.
    closer: Option<Instant>,
    interval: Duration,
    missed: u64,
    paused_since: Option<Instant>,
}

impl Schedule {
    /// The first cycle is at `start`, and at work already.
    pub(crate) fn new(start: Instant, interval: Duration) -> Self {
        Self {
            due: start + interval,
            closer: None,
            interval,
            missed: 0,
            paused_since: None,
        }
    }

    /// Returns when the next cycle is due, paused or not.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Looks once more at this time, where that is before the next cycle; nothing takes that back.
    pub(crate) fn look_again(&mut self, at: Option<Instant>) {
        self.closer = at;
    }

    /// Returns when to look next: at the next cycle that is due, or closer.
    pub(crate) fn next(&self) -> Instant {
        self.closer.map_or(self.due, |closer| closer.min(self.due))
    }

    /// Returns why the next look is taken; a closer one is taken once.
    pub(crate) fn trigger(&mut self) -> Trigger {
        match self.closer.take() {
            Some(closer) if closer < self.due => Trigger::Burst,
            _ => Trigger::Interval,
        }
    }

    /// Moves on after the cycle that was due, at `now`, by the `interval` in force from here on.
    pub(crate) fn advance(&mut self, now: Instant, interval: Duration) {
        self.interval = interval;
        self.due += self.interval;
        let late = now.saturating_duration_since(self.due);
        if late > Duration::ZERO {
            let passed =
                u64::try_from(late.as_nanos() / self.interval.as_nanos()).unwrap_or(u64::MAX) + 1;
            self.missed = self.missed.saturating_add(passed);
            self.due += self.interval * u32::try_from(passed).unwrap_or(u32::MAX);
        }
    }

    /// Returns how many cycles were missed since the last call.
    pub(crate) fn take_missed(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }

    /// Begins anew at `now`: nothing was due before.
    pub(crate) fn restart(&mut self, now: Instant, interval: Duration) {
        self.interval = interval;
        self.due = now + interval;
    }

    /// Nothing is due from `now` on, until [`Schedule::resume`].
    pub(crate) fn pause(&mut self, now: Instant) {
        self.paused_since.get_or_insert(now);
    }

    /// Goes on at `now`; returns how long it was paused, if it was.
    pub(crate) fn resume(&mut self, now: Instant) -> Option<Duration> {
        let since = self.paused_since.take()?;
        self.restart(now, self.interval);
        Some(now.saturating_duration_since(since))
    }

    /// Returns whether nothing is due.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused_since.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn cycles_in_time_keep_to_the_deadlines() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, SECOND);
        schedule.advance(start + SECOND + SECOND / 2, SECOND);
        assert_eq!(
            (schedule.due(), schedule.take_missed()),
            (start + 2 * SECOND, 0)
        );
    }

    #[test]
    fn deadlines_that_passed_are_missed_and_counted_once() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, SECOND);
        schedule.advance(start + 4 * SECOND + SECOND / 2, SECOND); // due at 1; 2, 3 and 4 passed meanwhile
        assert_eq!(
            (schedule.due(), schedule.take_missed()),
            (start + 5 * SECOND, 3)
        );
        schedule.advance(start + 5 * SECOND, SECOND);
        assert_eq!(
            (schedule.due(), schedule.take_missed()),
            (start + 6 * SECOND, 0)
        );
    }

    #[test]
    fn a_closer_look_comes_before_the_cycle_that_is_due_and_moves_it_not() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, 4 * SECOND);
        schedule.look_again(Some(start + SECOND));
        assert_eq!(schedule.next(), start + SECOND);
        assert_eq!(schedule.trigger(), Trigger::Burst);
        assert_eq!(schedule.next(), start + 4 * SECOND);
        schedule.look_again(Some(start + 5 * SECOND));
        assert_eq!(
            (schedule.next(), schedule.trigger()),
            (start + 4 * SECOND, Trigger::Interval)
        );
        assert_eq!(schedule.next(), schedule.due());
    }

    #[test]
    fn a_longer_interval_counts_from_the_deadline_that_was_due() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, SECOND);
        schedule.advance(start + SECOND + SECOND / 2, 3 * SECOND);
        assert_eq!(
            (schedule.due(), schedule.take_missed()),
            (start + 4 * SECOND, 0)
        );
    }

    #[test]
    fn a_pause_misses_nothing_and_the_schedule_begins_anew_after_it() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, SECOND);
        assert_eq!(schedule.resume(start), None);
        schedule.pause(start + SECOND / 2);
        schedule.pause(start + SECOND); // the first counts
        assert!(schedule.is_paused());
        assert_eq!(schedule.resume(start + 9 * SECOND), Some(17 * SECOND / 2));
        assert!(!schedule.is_paused());
        assert_eq!(
            (schedule.due(), schedule.take_missed()),
            (start + 10 * SECOND, 0)
        );
    }
}
