//! What is kept of samples: segments, written once, and the report, replaced whole.

use std::time::Duration;

use model::{Sample, Timestamp};
use monitor::Segment;
use store::{Fate, RecordKind, Records};
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
        let (first, last) = (samples[0].at, samples[samples.len() - 1].at);
        let fate = records.keep(RecordKind::Samples, first, &segment);
        watch.monitor().kept(outcome(fate, "samples"), last);
    }

    /// Writes the report; returns whether there was somewhere to write it to.
    pub(super) fn report(&self, watch: &Watch, now: Timestamp) -> bool {
        let Some(records) = &self.records else {
            return false;
        };
        let elapsed = watch.elapsed().as_secs_f64();
        let document = watch.monitor().report(now, elapsed).document();
        let fate = records.keep_report(&document);
        watch.monitor().kept(outcome(fate, "the report"), now);
        true
    }
}

fn outcome(fate: Fate, what: &str) -> Result<(), String> {
    match fate {
        Fate::Lost => Err(format!(
            "{what} could not be kept: the queue of the store is full"
        )),
        _ => Ok(()),
    }
}
