//! What is kept of samples: segments, written once, and the report, replaced whole.

use std::time::Duration;

use model::{Sample, Timestamp};
use monitor::Segment;
use store::{RecordKind, Records};
use tokio::time::Instant;

use super::Watch;

/// A segment is written after so many samples, so many rows of processes, and so long, whichever comes first.
const MOST_SAMPLES: usize = 300;
const MOST_ROWS: usize = 20_000;
const LONGEST: Duration = Duration::from_mins(5);

/// Keeps what is sampled.
#[derive(Default)]
pub(super) struct Keeping {
    /// When the first of the pending samples was taken.
    since: Option<Instant>,
    pending: Vec<Sample>,
    records: Option<Records>,
    rows: usize,
    sequence: Sequence,
}

/// The times that segments are named by. Readers take names in their order, so none is before an earlier one, even where the clock of the
/// node is set back: then the time that has passed since counts.
#[derive(Default)]
struct Sequence(Option<(Timestamp, f64)>);

impl Sequence {
    /// Returns the time for what began `at`, `elapsed_seconds` after the start of the collector.
    fn next(&mut self, at: Timestamp, elapsed_seconds: f64) -> Timestamp {
        let earliest = self.0.map(|(named, then)| {
            let passed = Duration::try_from_secs_f64(elapsed_seconds - then);
            named.after(passed.unwrap_or_default())
        });
        let name = earliest.map_or(at, |earliest| at.max(earliest));
        self.0 = Some((name, elapsed_seconds));
        name
    }
}

impl Keeping {
    /// Says where to.
    pub(super) fn open(&mut self, records: Records) {
        self.records = Some(records);
    }

    /// Adds a sample to the next segment. Where there is no store yet the oldest make room: a store that takes minutes to open has
    /// none of the first.
    pub(super) fn add(&mut self, sample: Sample) {
        self.since.get_or_insert_with(Instant::now);
        self.rows += sample.processes.len();
        self.pending.push(sample);
        if self.records.is_none() && self.is_full() {
            let half = self.pending.len().div_ceil(2);
            self.pending.drain(..half);
            self.rows = self.pending.iter().map(|it| it.processes.len()).sum();
        }
    }

    fn is_full(&self) -> bool {
        self.pending.len() >= MOST_SAMPLES || self.rows >= MOST_ROWS
    }

    /// Writes a segment, if one is full or has waited for long enough.
    pub(super) fn seal_if_due(&mut self, watch: &Watch, now: Instant) {
        let is_old = self
            .since
            .is_some_and(|since| now.saturating_duration_since(since) >= LONGEST);
        if self.records.is_some() && (is_old || self.is_full()) {
            self.seal(watch);
        }
    }

    /// Writes what is pending as a segment.
    pub(super) fn seal(&mut self, watch: &Watch) {
        let Some(records) = &self.records else {
            return;
        };
        let samples = std::mem::take(&mut self.pending);
        (self.rows, self.since) = (0, None);
        let (task, ticks) = {
            let monitor = watch.monitor();
            (
                monitor.about.task.clone(),
                monitor.about.clock_ticks_per_second,
            )
        };
        let Some(segment) = Segment::of(&samples, task, ticks) else {
            return;
        };
        let first = &samples[0];
        let at = self.sequence.next(first.at, first.elapsed_seconds);
        // Whether it is lost, on its way too, the next report says.
        _ = records.keep(RecordKind::Samples, at, &segment);
    }

    /// Writes the report; returns whether there was somewhere to write it to.
    pub(super) fn report(&self, watch: &Watch, now: Timestamp) -> bool {
        let Some(records) = &self.records else {
            return false;
        };
        let (lost, error) = records.lost();
        let report = {
            let mut monitor = watch.monitor();
            monitor.lost(lost, error, now);
            monitor.report(now, watch.elapsed().as_secs_f64())
        };
        // The monitor is free meanwhile: stages begin and end in it.
        _ = records.keep_report(&report.document());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_named_in_their_order_whatever_the_clock_does() {
        let at = |seconds: i64| Timestamp::from_microseconds(seconds * 1_000_000).unwrap();
        let mut sequence = Sequence::default();
        let mut name = |seconds, elapsed: f64| sequence.next(at(seconds), elapsed);
        assert_eq!(name(1000, 0.0), at(1000));
        assert_eq!(name(1300, 300.0), at(1300));
        // An hour back: what has passed counts, not the clock.
        assert_eq!(name(-2000, 600.0), at(1600));
        assert_eq!(name(-1700, 900.0), at(1900));
        // And forward again: as the clock says.
        assert_eq!(name(5000, 1200.0), at(5000));
    }
}
