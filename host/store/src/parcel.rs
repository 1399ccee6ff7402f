//! What the writer hands to its background task, and what the two count together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::Timestamp;

use crate::index::Listed;
use crate::record::ObjectKey;
use crate::writer::Summary;

/// One encoded object on its way.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) bytes: Arc<[u8]>,
    /// Whether it is in the spool too, as nearly always.
    pub(crate) is_spooled: bool,
    pub(crate) key: ObjectKey,
    /// What the index says of a snapshot, and the time; a record is in no index.
    pub(crate) listed: Option<(Listed, Timestamp)>,
}

/// The counts, readable while the task is at work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    /// Why the newest record that is lost is.
    last_loss: Option<String>,
    summary: Summary,
}

impl Tally {
    pub(crate) fn get(&self) -> Summary {
        self.counts().summary
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Summary)) {
        change(&mut self.counts().summary);
    }

    /// Counts an object that nobody could keep, because of `error`.
    pub(crate) fn count_lost(&self, key: &ObjectKey, error: &str) {
        match key {
            ObjectKey::Snapshot(_) => self.change(|summary| summary.lost += 1),
            ObjectKey::Record(_) => self.count_lost_record(error),
        }
    }

    /// Counts a record that nobody could keep.
    pub(crate) fn count_lost_record(&self, error: &str) {
        let mut counts = self.counts();
        counts.summary.records_lost += 1;
        counts.last_loss = Some(error.to_owned());
    }

    /// Returns how many records are lost, and why the newest of them is.
    pub(crate) fn lost_records(&self) -> (u64, Option<String>) {
        let counts = self.counts();
        (counts.summary.records_lost, counts.last_loss.clone())
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
