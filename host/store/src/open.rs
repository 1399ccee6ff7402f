//! A location -> an `OpenDAL` operator with its layers. Reading creates nothing; writing makes the directory first.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opendal::layers::{ConcurrentLimitLayer, RetryEvent, RetryLayer, TimeoutLayer};
use opendal::{Builder, ErrorKind, Operator, services};

use crate::error::root_cause;
use crate::{Location, StoreError};

/// How long one attempt at one operation may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts after the first; longer outages are the spool's business.
const RETRIES: usize = 2;
const SHORTEST_RETRY_DELAY: Duration = Duration::from_millis(100);
const LONGEST_RETRY_DELAY: Duration = Duration::from_secs(2);
/// Operations of one store at a time.
const CONCURRENT_OPERATIONS: usize = 8;

/// The folder in a directory store where objects grow before they are renamed to their place: below the store
/// because a rename must not cross file systems, and with a `.` because such names are never listed.
const INCOMING: &str = ".incoming";
/// Objects take seconds to write; whatever is older was left by a writer that died.
const INCOMING_LIFETIME: Duration = Duration::from_hours(1);

/// A store that can be read and written. Cheap to clone; clones share connections and the limit on operations.
#[derive(Clone, Debug)]
pub struct Store {
    place: Arc<Backing>,
}

#[derive(Debug)]
struct Backing {
    location: String,
    directory: Option<PathBuf>,
    reading: OnceLock<Operator>,
    writing: OnceLock<Operator>,
}

impl Store {
    /// Returns the store at `location` without touching it yet; only a location that this build has no storage
    /// service for is an error.
    pub fn open(location: &Location) -> Result<Self, StoreError> {
        match (location.directory(), location.scheme()) {
            (Some(directory), _) => Ok(Self {
                place: Arc::new(Backing {
                    location: location.to_string(),
                    directory: Some(directory.to_owned()),
                    reading: OnceLock::new(),
                    writing: OnceLock::new(),
                }),
            }),
            (None, "memory") => Ok(Self::memory()),
            (None, scheme) => Err(StoreError::Service {
                location: location.to_string(),
                scheme: scheme.to_owned(),
            }),
        }
    }

    /// Returns a new, empty store in memory, which ends with its last clone.
    pub fn memory() -> Self {
        let operator = layered(services::Memory::default()).expect("Memory has no settings");
        Self::of_operators(operator.clone(), operator)
    }

    /// Returns a store that answers no call at all.
    #[cfg(test)]
    pub(crate) fn answering_nothing() -> Self {
        Self::of_operators(hanging(), hanging())
    }

    /// Returns an empty store that answers no write.
    #[cfg(test)]
    pub(crate) fn taking_nothing() -> Self {
        let reading = layered(services::Memory::default()).unwrap();
        Self::of_operators(reading, hanging())
    }

    fn of_operators(reading: Operator, writing: Operator) -> Self {
        Self {
            place: Arc::new(Backing {
                location: "memory://".to_owned(),
                directory: None,
                reading: OnceLock::from(reading),
                writing: OnceLock::from(writing),
            }),
        }
    }

    /// Returns the directory or URL, for people.
    pub fn location(&self) -> &str {
        &self.place.location
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
            Ok(joined) => joined.expect("opening does not panic"),
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
            reason: "it is not UTF-8",
        })?;
        let service = services::Fs::default().root(root);
        let operator = match purpose {
            Purpose::Read if !directory.is_dir() => {
                return Err(StoreError::NoStore {
                    location: self.location.clone(),
                });
            }
            Purpose::Read => layered(service),
            Purpose::Write => layered(service.atomic_write_dir(&format!("{root}/{INCOMING}"))),
        };
        let operator = operator.map_err(|source| StoreError::Open {
            location: self.location.clone(),
            source: Box::new(source),
        })?;
        if matches!(purpose, Purpose::Write) {
            clean_incoming(&directory.join(INCOMING), INCOMING_LIFETIME);
        }
        Ok(slot.get_or_init(|| operator).clone())
    }
}

/// Adds the layers. The first is the innermost: each attempt is timed out, then retried, and all attempts of an
/// operation hold one permit. The other way round a timeout would drop a retry in the middle.
fn layered(service: impl Builder) -> Result<Operator, opendal::Error> {
    let timeout = TimeoutLayer::new()
        .with_timeout(ATTEMPT_TIMEOUT)
        .with_io_timeout(ATTEMPT_TIMEOUT);
    let retry = RetryLayer::new()
        .with_max_times(RETRIES)
        .with_min_delay(SHORTEST_RETRY_DELAY)
        .with_max_delay(LONGEST_RETRY_DELAY)
        .with_jitter()
        .with_notify(|event: RetryEvent<'_>| {
            tracing::debug!(
                operation = ?event.op,
                attempt = event.attempt,
                error = %root_cause(event.err),
                "The store failed; trying again."
            );
        });
    Ok(Operator::new(service)?
        .layer(timeout)
        .layer(retry)
        .layer(ConcurrentLimitLayer::new(CONCURRENT_OPERATIONS)))
}

/// Returns an operator whose calls wait for ever for a permit.
#[cfg(test)]
fn hanging() -> Operator {
    let memory = Operator::new(services::Memory::default()).unwrap();
    memory.layer(ConcurrentLimitLayer::new(0))
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
    fn a_service_that_was_not_built_in_is_named() {
        let error = Store::open(&location("s3://bucket/x?secret_access_key=abc")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "this build has no storage service `s3`, which s3://bucket/x needs; it has directories, fs:// and memory://"
        );
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
