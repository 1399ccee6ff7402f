//! From the spool to the store: several snapshots at a time, oldest first. What the store will never take is set aside.

use std::io;
use std::path::PathBuf;

use tokio::task::JoinSet;

use crate::deadline::Deadline;
use crate::error::root_cause;
use crate::index::Listed;
use crate::layers::CONCURRENT_OPERATIONS;
use crate::spool_handle::SpoolHandle;
use crate::{Key, Store, StoreError, format};

/// What became of some snapshots of the spool.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    /// They are in the store and no longer in the spool.
    pub(crate) stored: Vec<Listed>,
    /// How many were set aside.
    pub(crate) set_aside: u64,
    /// Why the first of those that stay could not be stored; others may not have been tried.
    pub(crate) failure: Option<StoreError>,
}

/// What became of one.
enum Fate {
    Stored(Box<Listed>),
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
    pub(crate) async fn bring(&self, keys: Vec<Key>) -> Drained {
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
    async fn settle(&self, key: Key, fate: Fate, drained: &mut Drained) -> Option<StoreError> {
        match fate {
            Fate::Stored(listed) => {
                if let Err(error) = self.spool.remove(key).await {
                    tracing::debug!(%error, "A stored snapshot stays in the spool.");
                }
                drained.stored.push(*listed);
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
                tracing::debug!(%key, error = %root_cause(&error), "A spooled snapshot still cannot be stored.");
                Some(error)
            }
        }
    }

    async fn bring_one(&self, key: &Key) -> Fate {
        let bytes = match self.spool.read(key.clone()).await {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Fate::Gone,
            Err(error) => return Fate::Hopeless(error.to_string()),
        };
        // Where it is torn, its checksum says so here.
        let owned = key.clone();
        let decoding = tokio::task::spawn_blocking(move || {
            let snapshot = format::decode(&bytes, &owned)?;
            Ok::<_, StoreError>((Listed::of(&snapshot, &owned, bytes.len()), bytes))
        });
        let (listed, bytes) = match decoding.await.expect("decoding does not panic") {
            Ok(decoded) => decoded,
            Err(error) => return Fate::Hopeless(root_cause(&error)),
        };
        let text = key.to_string();
        let put = self.store.put_new(&text, &bytes);
        match self.deadline.limit(&self.store, put).await {
            Ok(()) => Fate::Stored(Box::new(listed)),
            Err(error @ StoreError::Conflict { .. }) => Fate::Hopeless(root_cause(&error)),
            Err(error) => Fate::Failed(error),
        }
    }
}

/// Puts a snapshot that can never be stored out of the way, and names it.
pub(crate) async fn set_aside(spool: &SpoolHandle, key: &Key, error: &str) -> Option<PathBuf> {
    match spool.set_aside(key.clone()).await {
        Ok(path) => {
            let file = path.display();
            tracing::warn!(%file, error, "A snapshot can never be stored; it is set aside.");
            Some(path)
        }
        Err(problem) => {
            tracing::debug!(%key, error, %problem, "A snapshot cannot be set aside.");
            None
        }
    }
}
