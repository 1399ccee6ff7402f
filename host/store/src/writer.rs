//! Keeping snapshots: `write` brings one to the spool, on the local disk, and hands it to a background task, which
//! brings it to the store.
//!
//! When `write` returns, a snapshot outlives the collector and the machine's crash; a slow or broken store delays nobody.
//! Where the spool itself cannot be written, the task has the bytes and the store is all there is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::{Snapshot, Task, Timestamp};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::deadline::Deadline;
use crate::delivery::Delivery;
use crate::error::root_cause;
use crate::index::{Index, Listed};
use crate::parcel::{Parcel, Tally};
use crate::record::ObjectKey;
use crate::records::{Records, Spooling};
use crate::spool_handle::SpoolHandle;
use crate::stored_index::StoredIndex;
use crate::{Key, Place, Retention, SpoolSettings, Store, format};

/// Snapshots that may wait in memory for the background task.
const QUEUE_LENGTH: usize = 16;
/// How long a store that does not answer may hold up the first snapshot.
const OPENING_TIME: Duration = Duration::from_secs(10);
/// What the background task may take after its deadline to bring the rest to the spool.
const SPOOLING_TIME: Duration = Duration::from_secs(5);

/// Writes the snapshots of one place. Close it at the end; a dropped one leaves off where it is.
#[derive(Debug)]
pub struct Writer {
    deadline: watch::Sender<Option<Instant>>,
    next_sequence: u64,
    overflowed: Arc<AtomicBool>,
    place: Place,
    queue: mpsc::Sender<Parcel>,
    records: Records,
    retention: watch::Sender<Retention>,
    said_that_spool_fails: bool,
    spool: SpoolHandle,
    tally: Tally,
    task: JoinHandle<()>,
}

/// What became of a snapshot when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// What became of it so far.
    pub fate: Fate,
    /// Where it lies, or will lie, in the store.
    pub key: Key,
    /// The size of the object, compressed.
    pub size_bytes: u64,
}

/// What became of a snapshot so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The background task has it; it is in the spool too, unless that cannot be written.
    Queued,
    /// The background task is behind; it is in the spool.
    Spooled,
    /// Nobody could take it; a warning said why.
    Lost,
}

/// What became of all snapshots of a writer, and of the records beside them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Thrown away to keep the spool within its limit, whoever wrote them.
    pub evicted: u64,
    /// Snapshots that are neither in the store nor in the spool.
    pub lost: u64,
    /// Records that are neither in the store nor in the spool.
    pub records_lost: u64,
    /// Records that are still in the spool at the end.
    pub records_spooled: u64,
    /// Brought to the store for collectors of other places that left them in the spool.
    pub recovered: u64,
    /// Set aside in the spool, because they can never be stored.
    pub set_aside: u64,
    /// Still in the spool at the end; a later writer with the same spool stores them, or [`push`](crate::push()).
    pub spooled: u64,
    /// Brought to the store, those that an earlier writer of the same place left in the spool included.
    pub stored: u64,
}

impl Writer {
    /// Opens `place`, continues its index where there is one, and begins to store what an earlier writer left in
    /// the spool. A store that cannot be used is a setback: a warning, and everything goes to the spool until it
    /// can. Without a store there is only the spool.
    pub async fn open(
        store: Option<Store>,
        place: Place,
        task: Task,
        focus_files: Vec<String>,
        spool: SpoolSettings,
    ) -> Self {
        Self::open_within(OPENING_TIME, store, place, task, focus_files, spool).await
    }

    /// The same, for a caller who does not wait as long for a store that does not answer.
    pub async fn open_within(
        opening_time: Duration,
        store: Option<Store>,
        place: Place,
        task: Task,
        focus_files: Vec<String>,
        spool: SpoolSettings,
    ) -> Self {
        let spool = SpoolHandle::new(
            spool,
            store.as_ref().map(|store| store.address().to_owned()),
        );
        let (sender, deadline) = Deadline::new();
        let closing = deadline.clone();
        let (retention, wanted) = watch::channel(Retention::default());
        let (queue, parcels) = mpsc::channel(QUEUE_LENGTH);
        let overflowed = Arc::new(AtomicBool::new(false));
        let tally = Tally::default();
        let index = Index::empty(task, place.node.clone(), focus_files);
        let mut delivery = Delivery::new(
            store,
            place.clone(),
            StoredIndex::new(place.clone(), index, deadline.clone()).with_retention(wanted),
            spool.clone(),
            deadline,
            tally.clone(),
        );
        let next_sequence = delivery.begin(opening_time).await;
        let task = tokio::spawn(delivery.run(parcels, Arc::clone(&overflowed)));
        let (records, spooling) = Spooling::new(
            place.clone(),
            spool.clone(),
            closing,
            tally.clone(),
            queue.clone(),
            Arc::clone(&overflowed),
        );
        tokio::spawn(spooling.run());
        Self {
            deadline: sender,
            next_sequence,
            overflowed,
            place,
            queue,
            records,
            retention,
            said_that_spool_fails: false,
            spool,
            tally,
            task,
        }
    }

    /// Begins to delete the oldest snapshots of the place, as `retention` says; without it all are kept. The index tells
    /// how many, and up to which.
    pub fn keep_only(&self, retention: Retention) {
        self.retention.send_replace(retention);
    }

    /// Returns what keeps records of the place beside its snapshots, from any thread.
    pub fn records(&self) -> Records {
        self.records.clone()
    }

    /// Returns the sequence number for the next snapshot: the one after the highest that is stored, spooled or
    /// written here.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Takes `snapshot` to be stored; `now` is the time for the index.
    pub async fn write(&mut self, snapshot: &Snapshot, now: Timestamp) -> Written {
        let key = Key {
            place: self.place.clone(),
            id: snapshot.capture.id,
        };
        let after_it = snapshot.capture.sequence.saturating_add(1);
        self.next_sequence = self.next_sequence.max(after_it);
        let bytes = match format::encode(snapshot) {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::warn!(%key, error = %root_cause(&error), "A snapshot cannot be encoded; it is lost.");
                return self.lost(key, 0);
            }
        };
        let size_bytes = bytes.len() as u64;
        let bytes: Arc<[u8]> = bytes.into();
        let written = |fate| Written {
            fate,
            key: key.clone(),
            size_bytes,
        };
        let object = ObjectKey::Snapshot(key.clone());
        let (copy, tally) = (object.clone(), &self.tally);
        let spooled = self.spool.put(copy, Arc::clone(&bytes), tally).await;
        let is_spooled = spooled.is_ok();
        let parcel = Parcel {
            listed: Some((Listed::of(snapshot, &key, bytes.len()), now)),
            bytes,
            is_spooled,
            key: object,
        };
        self.say_when_spool_fails(spooled.err().as_ref());
        match self.queue.try_send(parcel) {
            Ok(()) => written(Fate::Queued),
            Err(_) if is_spooled => {
                self.overflowed.store(true, Ordering::Relaxed);
                written(Fate::Spooled)
            }
            Err(_) => {
                tracing::warn!(%key, "The store is behind and the spool takes nothing; a snapshot is lost.");
                self.lost(key, size_bytes)
            }
        }
    }

    fn say_when_spool_fails(&mut self, error: Option<&std::io::Error>) {
        let has_failed = std::mem::replace(&mut self.said_that_spool_fails, error.is_some());
        if let (Some(error), false) = (error, has_failed) {
            let spool = self.spool.directory().display();
            tracing::warn!(%spool, %error, "The spool takes no snapshots; they go straight to the store.");
        }
    }

    /// Stores what is queued and spooled, for `deadline` at most; the rest is in the spool afterwards.
    pub async fn close(self, deadline: Duration) -> Summary {
        let Self {
            deadline: sender,
            queue,
            mut task,
            tally,
            ..
        } = self;
        // One too far to be a time is none.
        sender.send_replace(Instant::now().checked_add(deadline));
        drop(queue);
        let ended = tokio::time::timeout(deadline.saturating_add(SPOOLING_TIME), &mut task).await;
        if ended.is_err() {
            task.abort();
            tracing::warn!("Neither the store nor the spool answers; giving up on what is left.");
        }
        tally.get()
    }

    fn lost(&self, key: Key, size_bytes: u64) -> Written {
        self.tally.change(|summary| summary.lost += 1);
        Written {
            fate: Fate::Lost,
            key,
            size_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::sample;

    async fn writer(store: Store, spool: &std::path::Path) -> Writer {
        let task = sample::task();
        let spool = SpoolSettings {
            directory: spool.to_owned(),
            max_size_bytes: 1 << 30,
        };
        let opening_time = Duration::from_millis(50);
        let place = Place::of(&task);
        Writer::open_within(opening_time, Some(store), place, task, Vec::new(), spool).await
    }

    #[tokio::test]
    async fn a_store_that_never_answers_holds_up_nobody() {
        for store in [Store::answering_nothing(), Store::taking_nothing()] {
            let spool = tempfile::tempdir().unwrap();
            let begun = Instant::now();
            let mut writer = writer(store, spool.path()).await;
            for sequence in 0..20 {
                let snapshot = sample::snapshot(sequence);
                writer.write(&snapshot, sample::time(sequence)).await;
            }
            let summary = writer.close(Duration::from_millis(100)).await;
            assert!(begun.elapsed() < Duration::from_mins(1));
            let all_spooled = Summary {
                spooled: 20,
                ..Summary::default()
            };
            assert_eq!(summary, all_spooled);
        }
    }
}
