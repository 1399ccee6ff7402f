//! From the spool to the store: several snapshots at a time, oldest first. What the store will never take is set aside.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde::de::IgnoredAny;

use tokio::task::JoinSet;

use crate::deadline::Deadline;
use crate::error::root_cause;
use crate::index::Listed;
use crate::layers::CONCURRENT_OPERATIONS;
use crate::record::ObjectKey;
use crate::spool_handle::SpoolHandle;
use crate::{Store, StoreError, format};

/// What became of some objects of the spool.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    /// How many are in the store and no longer in the spool.
    pub(crate) moved: usize,
    /// The snapshots among them.
    pub(crate) stored: Vec<Listed>,
    /// How many were set aside.
    pub(crate) set_aside: u64,
    /// Why the first of those that stay could not be stored; others may not have been tried.
    pub(crate) failure: Option<StoreError>,
}

/// What became of one.
enum Fate {
    Stored(Arc<[u8]>, Option<Box<Listed>>),
    /// Evicted, or another collector was quicker.
    Gone,
    /// It can never be stored, for this reason.
    Hopeless(String),
    Failed(StoreError),
}

/// The way from a spool to a store.
#[derive(Clone)]
pub(crate) struct Drain {
    pub(crate) deadline: Deadline,
    pub(crate) spool: SpoolHandle,
    pub(crate) store: Store,
}

impl Drain {
    /// Brings `keys` to the store. When a whole group fails it is the store's fault, not theirs, and the rest waits.
    pub(crate) async fn bring(&self, keys: Vec<ObjectKey>) -> Drained {
        let mut drained = Drained::default();
        for group in keys.chunks(CONCURRENT_OPERATIONS) {
            let mut going = JoinSet::new();
            for key in group {
                let (way, key) = (self.clone(), key.clone());
                going.spawn(async move { (way.bring_one(&key).await, key) });
            }
            let mut has_failed = false;
            let mut has_moved = false;
            while let Some(joined) = going.join_next().await {
                let (fate, key) = joined.expect("storing does not panic");
                match self.settle(key, fate, &mut drained).await {
                    Some(error) => {
                        has_failed = true;
                        drained.failure.get_or_insert(error);
                    }
                    None => has_moved = true,
                }
            }
            if has_failed && !has_moved {
                break;
            }
        }
        drained
    }

    /// Takes what was stored out of the spool, and what never can be aside. Returns why it stays.
    async fn settle(
        &self,
        key: ObjectKey,
        fate: Fate,
        drained: &mut Drained,
    ) -> Option<StoreError> {
        match fate {
            Fate::Stored(bytes, listed) => {
                if let Err(error) = self.spool.remove_stored(key, bytes).await {
                    tracing::debug!(%error, "What is stored stays in the spool.");
                }
                drained.moved += 1;
                drained.stored.extend(listed.map(|listed| *listed));
                None
            }
            Fate::Gone => None,
            Fate::Hopeless(reason) => {
                if set_aside(&self.spool, &key, &reason).await.is_some() {
                    drained.set_aside += 1;
                }
                None
            }
            Fate::Failed(error) => {
                tracing::debug!(%key, error = %root_cause(&error), "What is spooled still cannot be stored.");
                Some(error)
            }
        }
    }

    async fn bring_one(&self, key: &ObjectKey) -> Fate {
        let bytes = match self.spool.read(key.clone()).await {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Fate::Gone,
            Err(error) => return Fate::Hopeless(error.to_string()),
        };
        // Where it is torn, its checksum says so here.
        let owned = key.clone();
        let decoding = tokio::task::spawn_blocking(move || {
            Ok::<_, StoreError>((check(&bytes, &owned)?, Arc::from(bytes)))
        });
        let (listed, bytes): (_, Arc<[u8]>) = match decoding.await.expect("decoding does not panic")
        {
            Ok(decoded) => decoded,
            Err(error) => return Fate::Hopeless(root_cause(&error)),
        };
        let put = self.store.put(key, &bytes);
        match self.deadline.limit(&self.store, put).await {
            Ok(()) => Fate::Stored(bytes, listed),
            Err(error @ StoreError::Conflict { .. }) => Fate::Hopeless(root_cause(&error)),
            Err(error) => Fate::Failed(error),
        }
    }
}

/// Reads an object of the spool; of a snapshot, returns what the index says of it.
fn check(bytes: &[u8], key: &ObjectKey) -> Result<Option<Box<Listed>>, StoreError> {
    match key {
        ObjectKey::Snapshot(key) => {
            let snapshot = format::decode(bytes, key)?;
            Ok(Some(Box::new(Listed::of(&snapshot, key, bytes.len()))))
        }
        ObjectKey::Record(key) => {
            format::decode_record::<IgnoredAny>(bytes, key)?;
            Ok(None)
        }
    }
}

/// Puts what can never be stored out of the way, and names it.
pub(crate) async fn set_aside(
    spool: &SpoolHandle,
    key: &ObjectKey,
    error: &str,
) -> Option<PathBuf> {
    match spool.set_aside(key.clone()).await {
        Ok(path) => {
            let file = path.display();
            tracing::warn!(%file, error, "A file of the spool can never be stored; it is set aside.");
            Some(path)
        }
        Err(problem) => {
            tracing::debug!(%key, error, %problem, "A snapshot cannot be set aside.");
            None
        }
    }
}
