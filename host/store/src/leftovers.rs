//! What collectors that are gone have left in the spool: brought to the store, place by place, each with its index.
//!
//! A place that a living collector has is that one's business.

use std::collections::VecDeque;

use model::Task;

use crate::claim::Claim;
use crate::delivery::BATCH;
use crate::drain::Drain;
use crate::index::Index;
use crate::record::ObjectKey;
use crate::spool_handle::SpoolHandle;
use crate::stored_index::{StoredIndex, write_index};
use crate::{Place, StoreError};

/// Places in the spool that are still to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Leftovers(VecDeque<Place>);

/// What became of a batch of them.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// How many snapshots.
    pub(crate) stored: u64,
    /// How many records.
    pub(crate) records: u64,
    pub(crate) set_aside: u64,
    /// Why what is left could not be stored.
    pub(crate) failure: Option<StoreError>,
}

impl Leftovers {
    /// Returns all places in the spool but `own`.
    pub(crate) async fn of_others(spool: &SpoolHandle, own: &Place) -> Self {
        let mut places = spool.places().await.unwrap_or_default();
        places.retain(|place| place != own);
        Self(places.into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Stores a batch from the first place. After a failure the place is looked at again next time.
    pub(crate) async fn drain(&mut self, way: &Drain) -> Batch {
        let Some(place) = self.0.front().cloned() else {
            return Batch::default();
        };
        let Ok(Some((claim, torn))) = way.spool.claim(place.clone()).await else {
            tracing::debug!(%place, "A place in the spool is left to the collector that has it.");
            self.0.pop_front();
            return Batch::default();
        };
        for file in torn {
            let file = file.display();
            tracing::warn!(%file, "A collector died while it wrote this; what there is of it is set aside.");
        }
        let (batch, is_done) = drain_place(way, &place, claim).await;
        if is_done {
            self.0.pop_front();
        }
        batch
    }
}

/// Stores a batch of `place` and gives its folder up. Returns whether nothing waits there any more.
pub(crate) async fn drain_place(way: &Drain, place: &Place, claim: Claim) -> (Batch, bool) {
    let mut keys = way.spool.waiting(place.clone()).await.unwrap_or_default();
    let is_last = keys.len() <= BATCH;
    keys.truncate(BATCH);
    let task = Task::new(place.task.clone(), place.attempt, &place.node, &place.node);
    let empty = Index::empty(task, place.node.clone(), Vec::new());
    let mut index = StoredIndex::new(place.clone(), empty, way.deadline.clone());
    let has_snapshots = keys.iter().any(|key| matches!(key, ObjectKey::Snapshot(_)));
    let has_work = has_snapshots || way.spool.evicted_of(place.clone()).await > 0;
    // The index can be built again from the snapshots, so that it cannot be read is no failure.
    let is_known = has_work && index.read(&way.store).await.is_ok();
    let drained = way.bring(keys).await;
    let batch = Batch {
        stored: drained.stored.len() as u64,
        records: (drained.moved - drained.stored.len()) as u64,
        set_aside: drained.set_aside,
        failure: drained.failure,
    };
    if is_known && batch.failure.is_none() {
        match Index::rebuilt(&place.node, drained.stored.clone()) {
            // Only a snapshot knows the task's host.
            Some(first) if index.is_empty() => {
                index = StoredIndex::new(place.clone(), first, way.deadline.clone());
            }
            _ => drained
                .stored
                .into_iter()
                .for_each(|listed| index.add(listed)),
        }
        write_index(&mut index, &way.spool, place, &way.store).await;
    }
    way.spool.release(claim, place.clone()).await;
    let is_done = is_last && batch.failure.is_none();
    (batch, is_done)
}
