//! The writer's background task: brings parcels to the store, and to the spool while the store does not take them.
//!
//! Order of writes: the snapshot first, the index after it, so that the index never names what is not there. What
//! fails is tried again later, oldest first.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::Timestamp;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::deadline::{Deadline, reached};
use crate::error::root_cause;
use crate::index::Listed;
use crate::spool_handle::SpoolHandle;
use crate::stored_index::StoredIndex;
use crate::writer::Summary;
use crate::{Key, Place, Store, StoreError, format};

/// Spooled snapshots that are stored before new ones have their turn and the index is written.
const BATCH: usize = 64;
/// So many spooled snapshots in a row that the store does not take, and it is the store's fault, not theirs.
const FAILURES_IN_A_ROW: usize = 2;

/// One encoded snapshot on its way.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) bytes: Vec<u8>,
    pub(crate) key: Key,
    pub(crate) listed: Listed,
    pub(crate) now: Timestamp,
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
}

/// The background task.
pub(crate) struct Delivery {
    backoff: Backoff,
    deadline: Deadline,
    index: StoredIndex,
    place: Place,
    said_that_spool_is_full: bool,
    spool: SpoolHandle,
    store: Option<Store>,
    /// New parcels go to the spool at once, because trying the store takes its time.
    store_is_down: bool,
    tally: Tally,
    /// Whether snapshots of this place may be in the spool.
    waiting: bool,
}

/// What became of one snapshot in the spool.
enum Spooled {
    Stored,
    /// Evicted or set aside.
    OutOfTheWay,
    Failed,
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
            deadline,
            index,
            place,
            said_that_spool_is_full: false,
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
                self.store_failed(&store, &error);
            }
        }
        let after_spooled = spooled.iter().map(|key| key.id.sequence.saturating_add(1));
        let after_spooled = after_spooled.max().unwrap_or(0);
        after_spooled.max(self.index.next_sequence())
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
        let spool = self.waiting.then_some(again);
        index.into_iter().chain(spool).min()
    }

    async fn take(&mut self, parcel: Parcel) {
        self.index.set_clock(parcel.now);
        let store = match &self.store {
            Some(store) if !self.store_is_down => store.clone(),
            _ => return self.keep(parcel.key, parcel.bytes).await,
        };
        let text = parcel.key.to_string();
        let put = store.put_new(&text, &parcel.bytes);
        match self.deadline.limit(&store, put).await {
            Ok(()) => {
                self.tally.change(|summary| summary.stored += 1);
                self.index.add(parcel.listed);
                if self.index.is_due() {
                    self.write_index(&store).await;
                }
            }
            Err(error @ StoreError::Conflict { .. }) => {
                self.keep(parcel.key.clone(), parcel.bytes).await;
                self.set_aside(&parcel.key, root_cause(&error)).await;
            }
            Err(error) => {
                self.store_failed(&store, &error);
                self.keep(parcel.key, parcel.bytes).await;
            }
        }
    }

    /// Puts a snapshot into the spool.
    async fn keep(&mut self, key: Key, bytes: Vec<u8>) {
        let text = key.to_string();
        let spool = self.spool.directory().display().to_string();
        match self.spool.put(key, bytes).await {
            Ok(()) => self.waiting = true,
            Err(error) => {
                self.tally.change(|summary| summary.lost += 1);
                tracing::warn!(key = text, spool, %error, "The spool cannot keep a snapshot; it is lost.");
            }
        }
        let evicted = self.spool.evicted().await;
        if evicted > 0 && !self.said_that_spool_is_full {
            self.said_that_spool_is_full = true;
            tracing::warn!(
                spool,
                "The spool is full; the oldest snapshots in it are thrown away."
            );
        }
    }

    async fn retry(&mut self) {
        let Some(store) = self.store.clone() else {
            return;
        };
        if self.index.is_due() {
            self.write_index(&store).await;
        }
        if self.waiting {
            self.drain(&store).await;
        }
    }

    /// Stores a batch of what waits in the spool, oldest first, and returns how many that were.
    async fn drain(&mut self, store: &Store) -> usize {
        let keys = self.waiting_keys().await;
        self.waiting = keys.len() > BATCH;
        let (mut stored, mut failed, mut in_a_row) = (0, 0, 0);
        for key in keys.into_iter().take(BATCH) {
            match self.store_spooled(store, key).await {
                Spooled::Stored => (stored, in_a_row) = (stored + 1, 0),
                Spooled::OutOfTheWay => {}
                Spooled::Failed => (failed, in_a_row) = (failed + 1, in_a_row + 1),
            }
            if in_a_row == FAILURES_IN_A_ROW {
                break;
            }
        }
        self.waiting |= failed > 0;
        if stored > 0 {
            self.store_works(store);
            if self.index.is_due() {
                self.write_index(store).await;
            }
        }
        if failed > 0 {
            self.backoff.failed(Instant::now());
        }
        stored
    }

    async fn store_spooled(&mut self, store: &Store, key: Key) -> Spooled {
        let bytes = match self.spool.read(key.clone()).await {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Spooled::OutOfTheWay;
            }
            Err(error) => return self.set_aside(&key, error.to_string()).await,
        };
        let snapshot = match format::decode(&bytes, &key) {
            Ok(snapshot) => snapshot,
            Err(error) => return self.set_aside(&key, root_cause(&error)).await,
        };
        let text = key.to_string();
        let put = store.put_new(&text, &bytes);
        match self.deadline.limit(store, put).await {
            Ok(()) => {}
            Err(error @ StoreError::Conflict { .. }) => {
                return self.set_aside(&key, root_cause(&error)).await;
            }
            Err(error) => {
                tracing::debug!(%key, error = %root_cause(&error), "A spooled snapshot still cannot be stored.");
                return Spooled::Failed;
            }
        }
        self.tally.change(|summary| summary.stored += 1);
        self.index.add(Listed::of(&snapshot, &key, bytes.len()));
        match self.spool.remove(key).await {
            Ok(()) => Spooled::Stored,
            Err(error) => {
                tracing::debug!(%error, "A stored snapshot stays in the spool.");
                Spooled::Failed
            }
        }
    }

    async fn set_aside(&mut self, key: &Key, error: String) -> Spooled {
        match self.spool.set_aside(key.clone()).await {
            Ok(path) => {
                self.tally.change(|summary| summary.set_aside += 1);
                let file = path.display();
                tracing::warn!(%file, error, "A snapshot can never be stored; it is set aside.");
                Spooled::OutOfTheWay
            }
            Err(problem) => {
                tracing::debug!(%key, error, %problem, "A snapshot cannot be set aside.");
                Spooled::Failed
            }
        }
    }

    async fn write_index(&mut self, store: &Store) {
        if self.index.write(store).await {
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
            while self.waiting && self.drain(&store).await > 0 {}
            if self.index.is_behind() {
                self.write_index(&store).await;
            }
        }
        let left = self.waiting_keys().await.len() as u64;
        let evicted = self.spool.evicted().await;
        self.tally.change(|summary| {
            summary.evicted = evicted;
            summary.spooled = left;
        });
    }

    async fn waiting_keys(&self) -> Vec<Key> {
        let keys = self.spool.waiting(self.place.clone()).await;
        keys.unwrap_or_default()
    }

    fn store_failed(&mut self, store: &Store, error: &StoreError) {
        self.backoff.failed(Instant::now());
        if self.store_is_down {
            return;
        }
        self.store_is_down = true;
        tracing::warn!(
            store = store.location(),
            error = %root_cause(error),
            spool = %self.spool.directory().display(),
            "The store takes no snapshots; they wait in the spool."
        );
    }

    fn store_works(&mut self, store: &Store) {
        self.backoff.succeeded();
        if std::mem::take(&mut self.store_is_down) {
            tracing::info!(store = store.location(), "The store takes snapshots again.");
        }
    }
}
