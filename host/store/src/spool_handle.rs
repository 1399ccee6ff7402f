//! The spool, shared by the writer and its background task. A disk that hangs holds up neither for long.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::spool::{Spool, SpoolSettings};
use crate::{Key, Place};

/// How long a local disk may take for one file.
const PATIENCE: Duration = Duration::from_secs(3);

/// The spool behind a lock; every call runs on a blocking thread and ends within a few seconds.
#[derive(Clone, Debug)]
pub(crate) struct SpoolHandle {
    directory: PathBuf,
    spool: Arc<Mutex<Option<Spool>>>,
    settings: SpoolSettings,
}

impl SpoolHandle {
    pub(crate) fn new(settings: SpoolSettings) -> Self {
        Self {
            directory: settings.directory.clone(),
            spool: Arc::new(Mutex::new(None)),
            settings,
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) async fn put(&self, key: Key, bytes: Vec<u8>) -> io::Result<()> {
        self.run(move |spool| spool.put(&key, &bytes)).await
    }

    pub(crate) async fn waiting(&self, place: Place) -> io::Result<Vec<Key>> {
        self.run(move |spool| Ok(spool.waiting(&place))).await
    }

    pub(crate) async fn read(&self, key: Key) -> io::Result<Vec<u8>> {
        self.run(move |spool| spool.read(&key)).await
    }

    pub(crate) async fn remove(&self, key: Key) -> io::Result<()> {
        self.run(move |spool| spool.remove(&key)).await
    }

    pub(crate) async fn set_aside(&self, key: Key) -> io::Result<PathBuf> {
        self.run(move |spool| spool.set_aside(&key)).await
    }

    pub(crate) async fn evicted(&self) -> u64 {
        self.run(|spool| Ok(spool.evicted())).await.unwrap_or(0)
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Spool) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let spool = Arc::clone(&self.spool);
        let settings = self.settings.clone();
        let blocking = tokio::task::spawn_blocking(move || {
            let mut spool = spool.lock().unwrap_or_else(PoisonError::into_inner);
            work(spool.get_or_insert_with(|| Spool::open(settings)))
        });
        match tokio::time::timeout(PATIENCE, blocking).await {
            Ok(joined) => joined.map_err(io::Error::other)?,
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the disk does not answer",
            )),
        }
    }
}
