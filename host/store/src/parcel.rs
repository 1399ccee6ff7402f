//! What the writer hands to its background task, and what the two count together.

use std::sync::{Arc, Mutex, PoisonError};

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
pub(crate) struct Tally(Arc<Mutex<Summary>>);

impl Tally {
    pub(crate) fn get(&self) -> Summary {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Summary)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Counts an object that nobody could keep.
    pub(crate) fn count_lost(&self, key: &ObjectKey) {
        self.change(|summary| match key {
            ObjectKey::Snapshot(_) => summary.lost += 1,
            ObjectKey::Record(_) => summary.records_lost += 1,
        });
    }
}
