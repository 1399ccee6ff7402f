//! An index without the spool and the background task around it, for the scale bench: entries for snapshots of which
//! only a few are stored.

use std::time::Duration;

use model::{Snapshot, Timestamp};

use crate::deadline::Deadline;
use crate::history::key;
use crate::index::{Index, Listed};
use crate::stored_index::StoredIndex;
use crate::{Place, Store, StoreError, format};

/// The index of one place, as a collector keeps it.
pub struct BareIndex {
    index: StoredIndex,
    place: Place,
    store: Store,
}

impl BareIndex {
    /// Begins an index for the task of `first`, which is the first snapshot to come.
    pub fn new(store: Store, first: &Snapshot) -> Self {
        let place = Place::of(&first.task);
        let index = Index::empty(first.task.clone(), place.node.clone(), Vec::new());
        // Nobody ends it.
        let (_, deadline) = Deadline::new();
        Self {
            index: StoredIndex::new(place.clone(), index, deadline),
            place,
            store,
        }
    }

    /// Adds a snapshot whose object would have `size_bytes`.
    pub fn add(&mut self, snapshot: &Snapshot, size_bytes: usize, now: Timestamp) {
        let key = key(&self.place, snapshot.capture.id);
        self.index.set_clock(now);
        self.index.add(Listed::of(snapshot, &key, size_bytes));
    }

    /// Stores the snapshot itself.
    pub async fn put(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let bytes = format::encode(snapshot)?;
        let key = key(&self.place, snapshot.capture.id).to_string();
        self.store.put_new(&key, &bytes).await
    }

    /// Writes the index; returns whether that went well.
    pub async fn write(&mut self) -> bool {
        self.index.write(&self.store).await
    }

    /// Returns how long after a write a collector writes it again.
    pub fn wait(&self) -> Duration {
        self.index.wait()
    }
}
