//! The spool, shared by the writer and its background task. A disk that hangs holds up neither for long.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Place;
use crate::claim::Claim;
use crate::parcel::Tally;
use crate::record::ObjectKey;
use crate::spool::{Spool, SpoolSettings};

/// How long a local disk may take for one file.
const PATIENCE: Duration = Duration::from_secs(3);

/// The spool behind a lock; every call runs on a blocking thread and ends within a few seconds.
#[derive(Clone, Debug)]
pub(crate) struct SpoolHandle {
    directory: PathBuf,
    /// Set while a call has gone on for longer than anybody waits: the next ones do not even begin.
    hangs: Arc<AtomicBool>,
    spool: Arc<Mutex<Option<Spool>>>,
    settings: SpoolSettings,
    address: Option<String>,
}

impl SpoolHandle {
    /// `address` is that of the store that the snapshots are for.
    pub(crate) fn new(settings: SpoolSettings, address: Option<String>) -> Self {
        Self {
            directory: settings.directory.clone(),
            hangs: Arc::new(AtomicBool::new(false)),
            spool: Arc::new(Mutex::new(None)),
            settings,
            address,
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Keeps `bytes` as `key`. Records of the same place that had to make room are lost, which `tally` counts; for snapshots an index
    /// does that.
    pub(crate) async fn put(
        &self,
        key: ObjectKey,
        bytes: Arc<[u8]>,
        tally: &Tally,
    ) -> io::Result<()> {
        let place = key.place().clone();
        let evicted = self.run(move |spool| spool.put(&key, &bytes)).await?;
        let is_record =
            |it: &&ObjectKey| matches!(it, ObjectKey::Record(_)) && *it.place() == place;
        for _ in evicted.iter().filter(is_record) {
            tally.count_lost_record("the spool was full");
        }
        Ok(())
    }

    pub(crate) async fn waiting(&self, place: Place) -> io::Result<Vec<ObjectKey>> {
        self.run(move |spool| Ok(spool.waiting(&place))).await
    }

    pub(crate) async fn places(&self) -> io::Result<Vec<Place>> {
        self.run(|spool| Ok(spool.places())).await
    }

    pub(crate) async fn claim(&self, place: Place) -> io::Result<Option<(Claim, Vec<PathBuf>)>> {
        self.run(move |spool| spool.claim(&place)).await
    }

    pub(crate) async fn release(&self, claim: Claim, place: Place) {
        let released = self.run(move |spool| {
            spool.release(claim, &place);
            Ok(())
        });
        // What is not released now is when we end.
        let _ = released.await;
    }

    pub(crate) async fn read(&self, key: ObjectKey) -> io::Result<Vec<u8>> {
        self.run(move |spool| spool.read(&key)).await
    }

    pub(crate) async fn remove_stored(&self, key: ObjectKey, bytes: Arc<[u8]>) -> io::Result<()> {
        self.run(move |spool| spool.remove_stored(&key, &bytes))
            .await
    }

    pub(crate) async fn set_aside(&self, key: ObjectKey) -> io::Result<PathBuf> {
        self.run(move |spool| spool.set_aside(&key)).await
    }

    pub(crate) async fn evicted(&self) -> u64 {
        self.run(|spool| Ok(spool.evicted())).await.unwrap_or(0)
    }

    pub(crate) async fn evicted_of(&self, place: Place) -> u64 {
        let counted = self.run(move |spool| Ok(spool.evicted_of(&place)));
        counted.await.unwrap_or(0)
    }

    pub(crate) async fn forget_evicted(&self, place: Place, count: u64) -> io::Result<()> {
        self.run(move |spool| spool.forget_evicted(&place, count))
            .await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Spool) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let no_answer = || io::Error::new(io::ErrorKind::TimedOut, "the disk does not answer");
        if self.hangs.load(Ordering::Relaxed) {
            return Err(no_answer());
        }
        let spool = Arc::clone(&self.spool);
        let (settings, address) = (self.settings.clone(), self.address.clone());
        let hangs = Arc::clone(&self.hangs);
        let blocking = tokio::task::spawn_blocking(move || {
            let mut spool = spool.lock().unwrap_or_else(PoisonError::into_inner);
            let done = work(spool.get_or_insert_with(|| Spool::open(settings, address)));
            hangs.store(false, Ordering::Relaxed);
            done
        });
        if let Ok(joined) = tokio::time::timeout(PATIENCE, blocking).await {
            return joined.map_err(io::Error::other)?;
        }
        self.hangs.store(true, Ordering::Relaxed);
        Err(no_answer())
    }
}
