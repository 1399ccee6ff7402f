//! How processes ended, as what is wrong is told by it: the records of obituaries of a node, each read once.

use std::sync::{Arc, Mutex, PoisonError};

use diagnose::End;
use model::{ObituarySegment, Timestamp};
use store::{Place, RecordKey, RecordKind, Store, StoreError};

use crate::runs::words;
use crate::shelf::Held;

/// Records that are read of one node, the first and the newest: the causes, and how it ended.
const MOST_READ: usize = 256;
/// Obituaries that are held.
const HELD: u64 = 8192;

/// A record, or why it cannot be read.
type Read = Result<Arc<ObituarySegment>, Arc<str>>;

/// The records that were read.
#[derive(Debug)]
pub(crate) struct Ends {
    read: Mutex<Held<RecordKey, Read>>,
    store: Store,
}

/// The records of one node, by name.
#[derive(Debug, Default)]
pub(crate) struct Records(Vec<(String, Arc<ObituarySegment>)>);

impl Ends {
    pub(crate) fn new(store: Store) -> Self {
        Self {
            read: Mutex::new(Held::new(HELD)),
            store,
        }
    }

    /// Returns which records of `place` are to be read, or why that is not known.
    pub(crate) async fn keys(&self, place: &Place) -> Result<Vec<RecordKey>, Arc<str>> {
        let asked = self.store.records(place, RecordKind::Obituaries, None);
        let mut keys = asked.await.map_err(|error| words(&error))?;
        if keys.len() > MOST_READ {
            keys.drain(MOST_READ / 2..keys.len() - MOST_READ / 2);
        }
        Ok(keys)
    }

    /// Returns the records of `place` at `keys`; adds to `unread` why some of them are not among them.
    pub(crate) async fn read(
        &self,
        place: &Place,
        keys: Result<Vec<RecordKey>, Arc<str>>,
        unread: &mut Vec<Arc<str>>,
    ) -> Records {
        let keys = match keys {
            Ok(keys) => keys,
            Err(words) => {
                unread.push(words);
                return Records::default();
            }
        };
        let folder = format!("{place}/");
        let mut records = Vec::new();
        for key in keys {
            let path = key.to_string();
            let name = path.strip_prefix(&folder).unwrap_or(&path).to_owned();
            match self.record(key).await {
                Ok(record) => records.push((name, record)),
                Err(words) => unread.push(words),
            }
        }
        Records(records)
    }

    /// Returns the record at `key`. What cannot be understood stays so; a service that does not answer is asked again.
    async fn record(&self, key: RecordKey) -> Read {
        let held = || self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = held().get(&key) {
            return known;
        }
        let read: Result<ObituarySegment, StoreError> = self.store.record(&key).await;
        let is_lasting = matches!(read, Ok(_) | Err(StoreError::Format { .. }));
        let read = read.map(Arc::new).map_err(|error| words(&error).into());
        if is_lasting {
            let count = read.as_ref().map_or(0, |record| record.obituaries.len());
            held().put(key, read.clone(), count as u64 + 1, None);
        }
        read
    }
}

impl Records {
    /// Returns the ends in their order, those until an instant where one is given; it is by the clock of their node.
    pub(crate) fn until(&self, until: Option<Timestamp>) -> Vec<End<'_>> {
        let records = self.0.iter();
        End::in_order(
            records.map(|(name, segment)| (name.as_str(), &**segment)),
            until,
        )
    }
}
