//! The obituaries that were written: which are kept for the words of the end, which wait for the store, and how many there were.

use std::time::Duration;

use model::{Circumstance, Obituary, ProcessId, Timestamp, Unseen};
use monitor::Ended;

use super::last_seen::LastSeen;
use super::words::is_notable;

/// So many are kept for the words of the end: the first ones, which are the causes.
const MOST_NOTABLE: usize = 512;
/// And of these, so many are in each report.
const MOST_IN_REPORT: usize = 64;
/// So many wait for the store at most, and more only of those that words may be about.
const MOST_PENDING: usize = 4096;
const MOST_NOTABLE_PENDING: usize = 4 * MOST_PENDING;
/// So many are written at a time, and so long the first of them waits for others.
const ENOUGH: usize = 500;
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Obituaries in the order of the ends.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// How many that words may be about there were beyond those that are kept for them.
    left_out: u64,
    next: u64,
    notable: Vec<Obituary>,
    pending: Vec<Obituary>,
    /// How many ended of which there is nothing to say.
    well: u64,
}

impl Written {
    /// Adds one, in its place; returns which that is, and whether the store will be given it.
    pub(super) fn add(&mut self, mut obituary: Obituary) -> (u64, bool) {
        let order = self.next;
        self.next += 1;
        obituary.order = order;
        let is_notable = is_notable(&obituary);
        if !is_notable {
            self.well += 1;
        } else if self.notable.len() < MOST_NOTABLE {
            self.notable.push(obituary.clone());
        } else {
            self.left_out += 1;
        }
        let room = if is_notable {
            MOST_NOTABLE_PENDING
        } else {
            MOST_PENDING
        };
        let has_room = self.pending.len() < room;
        if has_room {
            self.pending.push(obituary);
        }
        (order, has_room)
    }

    /// Puts into the obituary of `process` what a look says of it that began before its end.
    pub(super) fn complete(&mut self, process: ProcessId, last: &LastSeen) {
        let written = self.pending.iter_mut().chain(&mut self.notable);
        for obituary in written.filter(|obituary| obituary.process == process) {
            last.put_into(obituary);
        }
    }

    /// Adds what was the matter around the end of `process`, found out later: before all else that was.
    pub(super) fn add_to(&mut self, process: ProcessId, circumstance: &Circumstance) {
        let written = self.pending.iter_mut().chain(&mut self.notable);
        for obituary in written.filter(|obituary| obituary.process == process) {
            obituary.circumstances.insert(0, circumstance.clone());
        }
    }

    /// Those that words may be about, in their order: those of ranks, and those that were not an exit with 0.
    pub(super) fn notable(&self) -> &[Obituary] {
        &self.notable
    }

    /// Returns how processes have ended up to now, in short.
    pub(super) fn so_far(&self, unseen: Unseen) -> Ended {
        let in_report = self.notable.len().min(MOST_IN_REPORT);
        Ended {
            obituaries: self.notable[..in_report].to_vec(),
            left_out: self.left_out + (self.notable.len() - in_report) as u64,
            unseen,
            well: self.well,
        }
    }

    /// Whether those that wait are to be written: there are many, they are old, or one is of more than a process that is done.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        let first = self.pending.first();
        let is_old = first.is_some_and(|first| now.since(first.ended_at) >= LONGEST_WAIT);
        is_old || self.pending.len() >= ENOUGH || self.pending.iter().any(is_notable)
    }

    /// Returns those that have come since the last time.
    pub(super) fn take(&mut self) -> Vec<Obituary> {
        std::mem::take(&mut self.pending)
    }
}
