//! A location -> an `OpenDAL` operator with its layers. Reading creates nothing; writing makes the directory first.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use opendal::{ErrorKind, Operator, services};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::layers::{ATTEMPT_TIMEOUT, layered};
use crate::together::{Closed, finished};
use crate::{Fault, Location, StoreError, service};

/// The folder in a directory store where objects grow before they are renamed to their place: below the store
/// because a rename must not cross file systems, and with a `.` because such names are never listed.
const INCOMING: &str = ".incoming";
/// Objects take seconds to write; whatever is older was left by a writer that died.
const INCOMING_LIFETIME: Duration = Duration::from_hours(1);
/// Documents of one store that are decoded at a time: they share the machine with a task.
pub(crate) const ASIDE_AT_A_TIME: usize = 2;

/// A store that can be read and written. Cheap to clone; clones share connections and the limit on operations.
#[derive(Clone, Debug)]
pub struct Store {
    place: Arc<Backing>,
}

#[derive(Debug)]
struct Backing {
    location: String,
    /// The same with the options that are no secrets, so that it can be found again.
    address: String,
    /// For what keeps a processor busy.
    aside: Arc<Semaphore>,
    directory: Option<PathBuf>,
    /// The folder whose entry in its parents is known to be on disk.
    settled: Mutex<PathBuf>,
    reading: OnceLock<Operator>,
    writing: OnceLock<Operator>,
}

impl Store {
    /// Returns the store at `location` without touching it yet. A bucket without what its service needs, such as a
    /// region, is an error.
    pub fn open(location: &Location) -> Result<Self, StoreError> {
        if let Some(directory) = location.directory() {
            return Ok(Self {
                place: Arc::new(Backing {
                    location: location.to_string(),
                    address: location.to_string(),
                    aside: Arc::new(Semaphore::new(ASIDE_AT_A_TIME)),
                    directory: Some(directory.to_owned()),
                    settled: Mutex::default(),
                    reading: OnceLock::new(),
                    writing: OnceLock::new(),
                }),
            });
        }
        let Some(bucket) = location.bucket() else {
            return Ok(Self::memory());
        };
        let operator = service::operator(bucket).map_err(|error| StoreError::Open {
            location: location.to_string(),
            source: Fault::of(&error),
        })?;
        let operator = layered(operator);
        Ok(Self::of_operators(location, operator.clone(), operator))
    }

    /// Returns a new, empty store in memory, which ends with its last clone.
    pub fn memory() -> Self {
        let operator = layered(memory());
        Self::of_operators(&Location::memory(), operator.clone(), operator)
    }

    /// Returns a store that answers no call at all.
    #[cfg(test)]
    pub(crate) fn answering_nothing() -> Self {
        Self::of_operators(&Location::memory(), hanging(), hanging())
    }

    /// Returns an empty store that answers no write.
    #[cfg(test)]
    pub(crate) fn taking_nothing() -> Self {
        Self::of_operators(&Location::memory(), layered(memory()), hanging())
    }

    fn of_operators(location: &Location, reading: Operator, writing: Operator) -> Self {
        Self {
            place: Arc::new(Backing {
                location: location.to_string(),
                address: location.without_secrets(),
                aside: Arc::new(Semaphore::new(ASIDE_AT_A_TIME)),
                directory: None,
                settled: Mutex::default(),
                reading: OnceLock::from(reading),
                writing: OnceLock::from(writing),
            }),
        }
    }

    /// Returns the directory or URL, for people.
    pub fn location(&self) -> &str {
        &self.place.location
    }

    /// Returns the directory or URL with the options that are no secrets: it parses to the same place.
    pub fn address(&self) -> &str {
        &self.place.address
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.place.directory.is_some()
    }

    /// Returns where it lies, where it is a directory.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.place.directory.as_deref()
    }

    /// Brings the entry of a new object to disk, where the store is a directory: what is stored must outlive a crash of
    /// the machine before it leaves the spool.
    pub(crate) async fn settle(&self, key: &str) {
        let Some(directory) = &self.place.directory else {
            return;
        };
        let (place, path) = (Arc::clone(&self.place), directory.join(key));
        let settling = tokio::task::spawn_blocking(move || place.settle(&path));
        if tokio::time::timeout(ATTEMPT_TIMEOUT, settling)
            .await
            .is_err()
        {
            tracing::debug!(
                key,
                "The directory of a stored object does not come to disk."
            );
        }
    }

    /// Returns a turn at what keeps a processor busy, once there is one.
    pub(crate) async fn turn(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        let turn = Arc::clone(&self.place.aside).acquire_owned().await;
        turn.map_err(|_| self.closed())
    }

    #[cfg(test)]
    pub(crate) fn free_turns(&self) -> usize {
        self.place.aside.available_permits()
    }

    /// Returns that nobody is asked any more.
    pub(crate) fn closed(&self) -> StoreError {
        StoreError::Closed {
            location: self.place.location.clone(),
        }
    }

    /// Returns the operator for reading; a directory that does not exist is no store.
    pub(crate) async fn reading(&self) -> Result<Operator, StoreError> {
        self.operator(Purpose::Read).await
    }

    /// Returns the operator for writing; makes the directory where there is none.
    pub(crate) async fn writing(&self) -> Result<Operator, StoreError> {
        self.operator(Purpose::Write).await
    }

    async fn operator(&self, purpose: Purpose) -> Result<Operator, StoreError> {
        let place = Arc::clone(&self.place);
        // A directory on a dead network mount answers never; on a blocking thread it holds up nobody else.
        let opening = tokio::task::spawn_blocking(move || place.operator(purpose));
        match tokio::time::timeout(ATTEMPT_TIMEOUT, opening).await {
            Ok(joined) => finished(joined).map_err(|Closed| self.closed())?,
            Err(_) => Err(StoreError::OutOfTime {
                location: self.place.location.clone(),
                patience: ATTEMPT_TIMEOUT,
            }),
        }
    }
}

#[derive(Clone, Copy)]
enum Purpose {
    Read,
    Write,
}

impl Backing {
    fn operator(&self, purpose: Purpose) -> Result<Operator, StoreError> {
        let slot = match purpose {
            Purpose::Read => &self.reading,
            Purpose::Write => &self.writing,
        };
        if let Some(operator) = slot.get() {
            return Ok(operator.clone());
        }
        let directory = self
            .directory
            .as_deref()
            .expect("other stores are opened when they are made");
        let root = directory.to_str().ok_or_else(|| StoreError::Location {
            text: self.location.clone(),
            reason: "it is not UTF-8".to_owned(),
        })?;
        let service = services::Fs::default().root(root);
        let operator = match purpose {
            Purpose::Read if !directory.is_dir() => {
                return Err(StoreError::NoStore {
                    location: self.location.clone(),
                });
            }
            Purpose::Read => Operator::new(service),
            Purpose::Write => {
                Operator::new(service.atomic_write_dir(&format!("{root}/{INCOMING}")))
            }
        };
        let operator = operator.map(layered).map_err(|error| StoreError::Open {
            location: self.location.clone(),
            source: Fault::of(&error),
        })?;
        if matches!(purpose, Purpose::Write) {
            clean_incoming(&directory.join(INCOMING), INCOMING_LIFETIME);
        }
        Ok(slot.get_or_init(|| operator).clone())
    }

    /// Syncs the folder of `path`; the first time its parents as well, in which it may be new.
    fn settle(&self, path: &Path) {
        let (Some(folder), Some(root)) = (path.parent(), self.directory.as_deref()) else {
            return;
        };
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = *settled != folder;
        let levels = if is_new { usize::MAX } else { 1 };
        let above = root.parent().unwrap_or(root);
        let folders = folder
            .ancestors()
            .take_while(|folder| folder.starts_with(above));
        for folder in folders.take(levels) {
            // A file system that cannot sync a directory has nothing better to offer.
            let _ = fs::File::open(folder).and_then(|folder| folder.sync_all());
        }
        folder.clone_into(&mut settled);
    }
}

fn memory() -> Operator {
    Operator::new(services::Memory::default()).expect("Memory has no settings")
}

/// Returns an operator whose calls wait for ever for a permit.
#[cfg(test)]
fn hanging() -> Operator {
    memory().layer(opendal::layers::ConcurrentLimitLayer::new(0))
}

/// Removes what dead writers left behind. Age is measured by the file system's own clock, so that another machine's
/// writer on the same network mount is not mistaken for a dead one.
fn clean_incoming(incoming: &Path, lifetime: Duration) {
    let probe = incoming.join(format!(".now-{}", std::process::id()));
    let now = fs::write(&probe, b"").and_then(|()| fs::metadata(&probe)?.modified());
    let _ = fs::remove_file(&probe);
    let (Ok(now), Ok(entries)) = (now, fs::read_dir(incoming)) else {
        return;
    };
    for entry in entries.flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|then| now.duration_since(then).ok());
        if age.is_some_and(|age| age > lifetime) {
            tracing::debug!(file = %entry.path().display(), "Removing a file that a dead writer left behind.");
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns whether `error` says that the object does not exist.
pub(crate) fn is_missing(error: &opendal::Error) -> bool {
    error.kind() == ErrorKind::NotFound
}

/// Returns whether `error` says that the object exists already.
pub(crate) fn is_taken(error: &opendal::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConditionNotMatch | ErrorKind::AlreadyExists
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(text: &str) -> Location {
        Location::parse(text, Path::new("/nowhere")).unwrap()
    }

    #[test]
    fn a_bucket_is_opened_without_a_client_or_a_request() {
        let store = Store::open(&location("s3://bucket/x?endpoint=http://nowhere:1")).unwrap();
        assert_eq!(store.location(), "s3://bucket/x");
        assert_eq!(store.address(), "s3://bucket/x?endpoint=http://nowhere:1");
        Store::open(&location("gs://bucket/x")).unwrap();
        Store::open(&location("az://box/x?account_name=me")).unwrap();
    }

    #[test]
    fn what_a_service_needs_and_does_not_get_is_said() {
        let error = Store::open(&location("az://box/x")).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("account_name"), "{cause}");
    }

    #[tokio::test]
    async fn reading_creates_nothing() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("store");
        let store = Store::open(&location(directory.to_str().unwrap())).unwrap();
        let error = store.reading().await.unwrap_err();
        assert!(matches!(error, StoreError::NoStore { .. }), "{error:?}");
        assert!(!directory.exists());
    }

    #[tokio::test]
    async fn writing_removes_only_what_dead_writers_left() {
        let root = tempfile::tempdir().unwrap();
        let incoming = root.path().join(INCOMING);
        fs::create_dir(&incoming).unwrap();
        let (old, young) = (incoming.join("old.json.gz"), incoming.join("young.json.gz"));
        fs::write(&young, b"x").unwrap();
        let file = fs::File::create(&old).unwrap();
        let young_since = fs::metadata(&young).unwrap().modified().unwrap();
        file.set_modified(young_since - INCOMING_LIFETIME - Duration::from_mins(1))
            .unwrap();
        let store = Store::open(&location(root.path().to_str().unwrap())).unwrap();
        store.writing().await.unwrap();
        assert!(young.exists());
        assert!(!old.exists());
    }
}
