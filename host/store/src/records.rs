//! Keeping records of a node beside its snapshots, and reading them: from any thread, without waiting for anything.
//!
//! `keep` hands a record over; a task of the writer's brings it to the spool, on the local disk, and on to the background
//! task that stores snapshots, so records wait, are tried again, and are drained at the end as snapshots are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::deadline::Deadline;
use crate::error::root_cause;
use crate::parcel::{Parcel, Tally};
use crate::record::{ObjectKey, Record, RecordKey, RecordKind, RecordName};
use crate::spool_handle::SpoolHandle;
use crate::{Fate, Place, Store, StoreError, format};

/// Records that may wait in memory for the disk.
const QUEUE_LENGTH: usize = 64;
/// Records leave so much of the background task's queue to snapshots.
const ROOM_FOR_SNAPSHOTS: usize = 8;

/// Keeps records of one place; clones are for the same. What is kept after the writer was closed is lost, and counted.
#[derive(Clone, Debug)]
pub struct Records {
    place: Place,
    queue: mpsc::Sender<(RecordKey, Arc<[u8]>)>,
    said_that_one_is_lost: Arc<AtomicBool>,
    tally: Tally,
}

/// The way of records to the spool.
pub(crate) struct Spooling {
    deadline: Deadline,
    overflowed: Arc<AtomicBool>,
    parcels: mpsc::Sender<Parcel>,
    queue: mpsc::Receiver<(RecordKey, Arc<[u8]>)>,
    records: Records,
    spool: SpoolHandle,
}

impl Records {
    /// Keeps `document`, which begins `at` and has a `schema_version`, as a record that is written once. The same document
    /// is the same object. Never blocks but for compressing it.
    pub fn keep(&self, kind: RecordKind, at: Timestamp, document: &impl Serialize) -> Fate {
        let encoded = format::to_json(document).and_then(|text| {
            let bytes = format::compress(&text)?;
            Ok((Record::Kept(kind, RecordName::of(at, &text)), bytes))
        });
        self.queue(encoded)
    }

    /// Keeps `document`, which has a `schema_version`, as the report, in place of the one before. A service is given one a
    /// minute at most, the newest, and the last at the end.
    pub fn keep_report(&self, document: &impl Serialize) -> Fate {
        self.queue(format::to_json(document).map(|text| (Record::Report, text)))
    }

    /// Returns how many records of this writer are lost by now, and why the newest of them is: on their way to the disk and the
    /// store, long after they were kept, too.
    pub fn lost(&self) -> (u64, Option<String>) {
        self.tally.lost_records()
    }

    fn queue(&self, encoded: Result<(Record, Vec<u8>), crate::error::FormatError>) -> Fate {
        let place = self.place.clone();
        let (record, bytes) = match encoded {
            Ok(encoded) => encoded,
            Err(error) => {
                let error = root_cause(&error);
                tracing::warn!(%place, error, "A record cannot be encoded; it is lost.");
                self.tally.count_lost_record(&error);
                return Fate::Lost;
            }
        };
        let key = RecordKey { place, record };
        match self.queue.try_send((key, bytes.into())) {
            Ok(()) => Fate::Queued,
            Err(refused) => {
                let (key, _) = refused.into_inner();
                self.lose(&ObjectKey::Record(key), "nobody takes it");
                Fate::Lost
            }
        }
    }

    fn lose(&self, key: &ObjectKey, error: &str) {
        self.tally.count_lost(key, error);
        if !self.said_that_one_is_lost.swap(true, Ordering::Relaxed) {
            tracing::warn!(%key, error, "A record is lost; more of them will only be counted.");
        }
    }
}

impl Spooling {
    /// Returns the handle of `place` and what works for it. `parcels` and `overflowed` lead to the background task.
    pub(crate) fn new(
        place: Place,
        spool: SpoolHandle,
        deadline: Deadline,
        tally: Tally,
        parcels: mpsc::Sender<Parcel>,
        overflowed: Arc<AtomicBool>,
    ) -> (Records, Self) {
        let (sender, queue) = mpsc::channel(QUEUE_LENGTH);
        let records = Records {
            place,
            queue: sender,
            said_that_one_is_lost: Arc::default(),
            tally,
        };
        let spooling = Self {
            deadline,
            overflowed,
            parcels,
            queue,
            records: records.clone(),
            spool,
        };
        (records, spooling)
    }

    /// Works until the writer is closed and all that was kept before is in the spool.
    pub(crate) async fn run(mut self) {
        loop {
            let next = tokio::select! {
                biased;
                next = self.queue.recv() => next,
                () = self.deadline.set() => {
                    self.queue.close();
                    continue;
                }
            };
            let Some((key, bytes)) = next else {
                return;
            };
            self.take(ObjectKey::Record(key), bytes).await;
        }
    }

    async fn put(&self, key: &ObjectKey, bytes: &Arc<[u8]>) -> std::io::Result<()> {
        let (key, bytes) = (key.clone(), Arc::clone(bytes));
        self.spool.put(key, bytes, &self.records.tally).await
    }

    async fn take(&self, key: ObjectKey, bytes: Arc<[u8]>) {
        let spooled = self.put(&key, &bytes).await;
        let is_spooled = spooled.is_ok();
        let parcel = Parcel {
            bytes,
            is_spooled,
            key: key.clone(),
            listed: None,
        };
        let has_room = self.parcels.capacity() > ROOM_FOR_SNAPSHOTS;
        if has_room && self.parcels.try_send(parcel).is_ok() {
            return;
        }
        match spooled {
            Ok(()) => self.overflowed.store(true, Ordering::Relaxed),
            Err(error) => self.records.lose(&key, &error.to_string()),
        }
    }
}

impl Store {
    /// Returns the records of one kind that `place` has and that begin at `from` or later, oldest first; one listing, and
    /// none of them is opened.
    pub async fn records(
        &self,
        place: &Place,
        kind: RecordKind,
        from: Option<Timestamp>,
    ) -> Result<Vec<RecordKey>, StoreError> {
        // No name is shorter than its stamp, so the first of that time comes after it.
        let after = from.map(Timestamp::compact);
        let folder = place.records_folder(kind);
        let objects = self.objects_after(&folder, after.as_deref()).await?;
        let names = objects.iter().filter_map(|it| RecordName::parse(&it.name));
        let mut names: Vec<RecordName> = names.collect();
        names.sort();
        let keys = names.into_iter().map(|name| RecordKey {
            place: place.clone(),
            record: Record::Kept(kind, name),
        });
        Ok(keys.collect())
    }

    /// Returns the document at `key`. [`StoreError::NotFound`] where there is none; one of a later major version is an
    /// error by name. It is decoded beside the threads that wait for requests.
    pub async fn record<T: DeserializeOwned + Send + 'static>(
        &self,
        key: &RecordKey,
    ) -> Result<T, StoreError> {
        let bytes = self.fetch(&key.to_string()).await?;
        let key = key.clone();
        self.aside(move || format::decode_record(&bytes, &key))
            .await?
    }

    /// Writes an object of a node: a report whatever was there, all others only where there is none.
    pub(crate) async fn put(&self, key: &ObjectKey, bytes: &[u8]) -> Result<(), StoreError> {
        let text = key.to_string();
        if !key.is_report() {
            return self.put_new(&text, bytes).await;
        }
        self.replace(&text, bytes).await?;
        self.settle(&text).await;
        Ok(())
    }
}
