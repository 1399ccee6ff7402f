//! The obituaries that were written: which are kept for the words of the end, which wait for the store, and how many there were.

use std::collections::BTreeSet;
use std::time::Duration;

use model::{Circumstance, Ending, Obituary, ProcessId, Timestamp, Unseen};
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
/// So long an obituary waits for how the process ended, which is known when its parent has taken its status.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of so many at a time.
const MOST_AWAITED: usize = 4096;
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Obituaries in the order of the ends.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Whose end may be known later.
    awaited: BTreeSet<ProcessId>,
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

    /// Returns those that are to be written now: there are many, they are old, or one is of more than a process that is done. Of whom
    /// more may be known in a moment, such as one of those `in_doubt`, is not among them.
    pub(super) fn due(&mut self, now: Timestamp, in_doubt: &BTreeSet<ProcessId>) -> Vec<Obituary> {
        let waits = |one: &Obituary| {
            let is_open = self.awaited.contains(&one.process) || in_doubt.contains(&one.process);
            is_open && now.since(one.ended_at) < PATIENCE
        };
        let (ready, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|one| !waits(one));
        let first = ready.first();
        let is_old = first.is_some_and(|first| now.since(first.ended_at) >= LONGEST_WAIT);
        if is_old || ready.len() >= ENOUGH || ready.iter().any(is_notable) {
            self.pending = rest;
            return ready;
        }
        self.pending = ready.into_iter().chain(rest).collect();
        self.pending.sort_by_key(|one| one.order);
        Vec::new()
    }

    /// Returns all that have come since the last time.
    pub(super) fn take(&mut self) -> Vec<Obituary> {
        std::mem::take(&mut self.pending)
    }

    /// Notes that how `process` ended may be known later.
    pub(super) fn wait_for(&mut self, process: ProcessId) {
        if self.awaited.len() < MOST_AWAITED {
            self.awaited.insert(process);
        }
    }

    /// Whether how `process` ended is to be known later.
    pub(super) fn awaits(&self, process: ProcessId) -> bool {
        self.awaited.contains(&process)
    }

    /// Returns how `process` ended, as far as its obituary is at hand.
    pub(super) fn ending_of(&self, process: ProcessId) -> Option<Ending> {
        let mut written = self.notable.iter().chain(&self.pending);
        let own = written.find(|one| one.process == process)?;
        Some(own.ending)
    }

    /// Notes how `process` ended, which was waited for.
    pub(super) fn is_known(&mut self, process: ProcessId, ending: Ending) {
        self.awaited.remove(&process);
        let mut is_well = false;
        let written = self.pending.iter_mut().chain(&mut self.notable);
        for obituary in written.filter(|obituary| obituary.process == process) {
            obituary.ending = ending;
            is_well = !is_notable(obituary);
        }
        if is_well {
            let before = self.notable.len();
            self.notable.retain(|one| one.process != process);
            if self.notable.len() == before {
                self.left_out = self.left_out.saturating_sub(1);
            }
            self.well += 1;
        }
    }
}
