//! The writer's background task: brings parcels to the store, and what waits in the spool.
//!
//! Order of writes: the snapshot first, the index after it, so that the index never names what is not there. What
//! fails is tried again later, oldest first.

mod saying;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::claim::Claim;
use crate::deadline::{Deadline, reached};
use crate::drain::{Drain, set_aside};
use crate::error::root_cause;
use crate::layers::ATTEMPT_TIMEOUT;
use crate::leftovers::Leftovers;
use crate::parcel::{Parcel, Tally};
use crate::record::ObjectKey;
use crate::report_turn::ReportTurn;
use crate::spool_handle::SpoolHandle;
use crate::stored_index::{StoredIndex, write_index};
use crate::{Place, Store, StoreError};
use saying::Said;

/// Spooled snapshots that are stored before new ones have their turn and the index is written.
pub(crate) const BATCH: usize = 64;

/// The background task.
pub(crate) struct Delivery {
    backoff: Backoff,
    claim: Option<Claim>,
    deadline: Deadline,
    index: StoredIndex,
    /// What collectors before this one have left in the spool.
    leftovers: Leftovers,
    place: Place,
    report: ReportTurn,
    said: Said,
    spool: SpoolHandle,
    store: Option<Store>,
    /// New parcels wait in the spool, because trying the store takes its time.
    store_is_down: bool,
    tally: Tally,
    /// Whether objects of this place may be in the spool that are not in the queue.
    waiting: bool,
}

impl Delivery {
    pub(crate) fn new(
        store: Option<Store>,
        place: Place,
        index: StoredIndex,
        spool: SpoolHandle,
        deadline: Deadline,
        tally: Tally,
    ) -> Self {
        Self {
            backoff: Backoff::new(),
            claim: None,
            deadline,
            index,
            leftovers: Leftovers::default(),
            place,
            report: ReportTurn::new(store.as_ref()),
            said: Said::default(),
            spool,
            store,
            store_is_down: false,
            tally,
            waiting: false,
        }
    }

    /// Reads what is there already, for `opening_time` at most, and returns the next sequence number.
    pub(crate) async fn begin(&mut self, opening_time: Duration) -> u64 {
        let spooled = self.waiting_keys().await;
        self.waiting = !spooled.is_empty();
        for key in spooled.iter().filter(|key| key.is_obituary()) {
            if let Ok(bytes) = self.spool.read(key.clone()).await {
                self.index.cite(&bytes);
            }
        }
        self.leftovers = Leftovers::of_others(&self.spool, &self.place).await;
        self.claim().await;
        if let Some(store) = self.store.clone() {
            let opening = tokio::time::timeout(opening_time, async {
                store.writing().await?;
                self.index.read(&store).await
            });
            let opened = opening.await.unwrap_or_else(|_| {
                Err(StoreError::OutOfTime {
                    location: store.location().to_owned(),
                    patience: opening_time,
                })
            });
            if let Err(error) = opened {
                let error = self.with_a_reason(&store, error).await;
                self.store_failed(&store, &error);
            }
        }
        let after_spooled = spooled.iter().map(|key| match key {
            ObjectKey::Snapshot(key) => key.id.sequence.saturating_add(1),
            ObjectKey::Record(_) => 0,
        });
        let after_spooled = after_spooled.max().unwrap_or(0);
        after_spooled.max(self.index.next_sequence())
    }

    /// Asks again in a way that makes the service say why, where it did not.
    async fn with_a_reason(&self, store: &Store, error: StoreError) -> StoreError {
        let is_terse = matches!(&error, StoreError::Access { source, .. } if source.is_terse());
        if !is_terse {
            return error;
        }
        let folder = self.place.snapshots_folder();
        let listing = self.deadline.limit(store, store.list(&folder));
        match tokio::time::timeout(ATTEMPT_TIMEOUT, listing).await {
            Ok(Err(reason)) => reason,
            Ok(Ok(_)) | Err(_) => error,
        }
    }

    /// Makes the place's folder in the spool ours while we live. Another collector of the same place is no reason not
    /// to work: files are put, and taken away, whole.
    async fn claim(&mut self) {
        match self.spool.claim(self.place.clone()).await {
            Ok(Some((claim, torn))) => {
                self.claim = Some(claim);
                for file in torn {
                    let file = file.display();
                    tracing::warn!(%file, "A collector died while it wrote this; what there is of it is set aside.");
                }
            }
            Ok(None) => tracing::debug!("Another collector of this place uses the spool as well."),
            Err(error) => tracing::debug!(%error, "The spool cannot be claimed."),
        }
    }

    /// Works until the queue is closed and empty, then once more on all that is left.
    pub(crate) async fn run(
        mut self,
        mut queue: mpsc::Receiver<Parcel>,
        overflowed: Arc<AtomicBool>,
    ) {
        loop {
            self.waiting |= overflowed.swap(false, Ordering::Relaxed);
            tokio::select! {
                biased;
                parcel = queue.recv() => match parcel {
                    Some(parcel) => self.take(parcel).await,
                    None => break,
                },
                () = reached(self.retry_at()) => self.retry().await,
            }
        }
        self.waiting |= overflowed.swap(false, Ordering::Relaxed);
        self.finish().await;
    }

    fn retry_at(&self) -> Option<Instant> {
        self.store.as_ref()?;
        let again = self.backoff.until(Instant::now());
        let index = self.index.due().map(|due| due.max(again));
        let waiting = self.waiting || !self.leftovers.is_empty();
        let spool = waiting.then_some(again);
        let report = self.report.due().map(|due| due.max(again));
        [index, spool, report].into_iter().flatten().min()
    }

    async fn take(&mut self, parcel: Parcel) {
        if let Some((_, now)) = &parcel.listed {
            self.index.set_clock(*now);
        }
        if parcel.key.is_obituary() {
            self.index.cite(&parcel.bytes);
        }
        self.say_when_spool_is_full().await;
        let store = match &self.store {
            Some(store) if !self.store_is_down => store.clone(),
            _ => return self.keep(parcel).await,
        };
        let is_report = parcel.key.is_report();
        if is_report && parcel.is_spooled && self.report.must_wait() {
            return;
        }
        let put = store.put(&parcel.key, &parcel.bytes);
        match self.deadline.limit(&store, put).await {
            Ok(()) => {
                if let Some((listed, _)) = parcel.listed {
                    self.tally.change(|summary| summary.stored += 1);
                    self.index.add(listed);
                }
                if is_report {
                    self.report.stored();
                }
                if parcel.is_spooled
                    && let Err(error) = self.spool.remove_stored(parcel.key, parcel.bytes).await
                {
                    tracing::debug!(%error, "What is stored stays in the spool.");
                }
                self.write_index_when_due(&store).await;
            }
            Err(error @ StoreError::Conflict { .. }) => {
                let key = parcel.key.clone();
                self.keep(parcel).await;
                if set_aside(&self.spool, &key, &root_cause(&error))
                    .await
                    .is_some()
                {
                    self.tally.change(|summary| summary.set_aside += 1);
                }
            }
            Err(error) => {
                self.store_failed(&store, &error);
                self.keep(parcel).await;
            }
        }
    }

    /// Leaves an object in the spool; what could not get into it is tried again.
    async fn keep(&mut self, parcel: Parcel) {
        if parcel.is_spooled {
            self.waiting = true;
            return;
        }
        let key = parcel.key.clone();
        match self.spool.put(parcel.key, parcel.bytes, &self.tally).await {
            Ok(()) => {
                self.waiting = true;
                self.said.all_is_lost = false;
            }
            Err(error) => {
                self.tally.count_lost(&key, &root_cause(&error));
                if !std::mem::replace(&mut self.said.all_is_lost, true) {
                    let spool = self.spool.directory().display();
                    tracing::warn!(%key, %spool, %error, "Neither store nor spool can keep this; it is lost, and so is what comes until one can.");
                }
            }
        }
    }

    async fn retry(&mut self) {
        let Some(store) = self.store.clone() else {
            return;
        };
        self.write_index_when_due(&store).await;
        if self.waiting || self.report.is_due() {
            self.drain(&store).await;
        } else if !self.leftovers.is_empty() {
            self.drain_leftovers(&store).await;
        }
    }

    /// Stores a batch of what waits in the spool and returns how many that were.
    async fn drain(&mut self, store: &Store) -> usize {
        let mut keys = self.waiting_keys().await;
        let has_more = keys.len() > BATCH;
        keys.truncate(BATCH);
        let has_report = keys.iter().any(ObjectKey::is_report);
        let drained = self.way(store).bring(keys).await;
        self.waiting = has_more || drained.failure.is_some();
        if has_report && drained.failure.is_none() {
            self.report.stored();
        }
        let stored = drained.moved;
        self.tally.change(|summary| {
            summary.stored += drained.stored.len() as u64;
            summary.set_aside += drained.set_aside;
        });
        for listed in drained.stored {
            self.index.add(listed);
        }
        if stored > 0 {
            self.store_works(store);
            self.write_index_when_due(store).await;
        }
        if let Some(error) = drained.failure {
            if stored == 0 {
                self.store_failed(store, &error);
            } else {
                self.backoff.failed(Instant::now());
            }
        }
        stored
    }

    /// Stores a batch of what others left; returns how many that were.
    async fn drain_leftovers(&mut self, store: &Store) -> usize {
        let drained = self.leftovers.drain(&self.way(store)).await;
        self.tally.change(|summary| {
            summary.recovered += drained.stored;
            summary.set_aside += drained.set_aside;
        });
        match drained.failure {
            Some(error) => self.store_failed(store, &error),
            None => self.store_works(store),
        }
        usize::try_from(drained.stored + drained.records).unwrap_or(usize::MAX)
    }

    fn way(&self, store: &Store) -> Drain {
        Drain {
            deadline: self.deadline.clone(),
            spool: self.spool.clone(),
            store: store.clone(),
        }
    }

    async fn write_index_when_due(&mut self, store: &Store) {
        if self.index.is_due() {
            self.write_index(store).await;
        }
    }

    async fn write_index(&mut self, store: &Store) {
        if write_index(&mut self.index, &self.spool, &self.place, store).await {
            self.backoff.succeeded();
        } else {
            self.backoff.failed(Instant::now());
        }
    }

    /// The last round: whatever the back-off says, all that is left is tried once, until the deadline.
    async fn finish(&mut self) {
        if let Some(store) = self.store.clone() {
            if self.index.is_behind() {
                self.write_index(&store).await;
            }
            self.waiting |= self.report.hurry();
            while self.waiting && self.drain(&store).await > 0 {}
            while !self.waiting
                && !self.leftovers.is_empty()
                && self.drain_leftovers(&store).await > 0
            {}
            if self.index.is_behind() {
                self.write_index(&store).await;
            }
        }
        let left = self.waiting_keys().await;
        let is_snapshot = |key: &&ObjectKey| matches!(key, ObjectKey::Snapshot(_));
        let spooled = left.iter().filter(is_snapshot).count() as u64;
        let evicted = self.spool.evicted().await;
        self.tally.change(|summary| {
            summary.evicted = evicted;
            summary.records_spooled = left.len() as u64 - spooled;
            summary.spooled = spooled;
        });
        if let Some(claim) = self.claim.take() {
            self.spool.release(claim, self.place.clone()).await;
        }
    }

    /// What may be stored now.
    async fn waiting_keys(&self) -> Vec<ObjectKey> {
        let keys = self.spool.waiting(self.place.clone()).await;
        let mut keys = keys.unwrap_or_default();
        keys.retain(|key| !(key.is_report() && self.report.waits()));
        keys
    }
}
