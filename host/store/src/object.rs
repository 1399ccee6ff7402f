//! Single objects and folders of a store, with errors that name them.

use std::future::poll_fn;
use std::pin::Pin;

use futures_core::Stream;
use opendal::{EntryMode, ErrorKind, Metadata, Operator};

use crate::error::FormatError;
use crate::open::{is_missing, is_taken};
use crate::{Fault, Key, Store, StoreError};

/// No object of ours comes near; keeps a hostile one from filling the memory.
const OBJECT_LIMIT_BYTES: u64 = 512 << 20;

/// Which version of an object was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nobody looked yet.
    Unknown,
    /// There was none.
    Absent,
    /// As the service describes it.
    As {
        size_bytes: u64,
        modified: Option<String>,
        etag: Option<String>,
    },
}

/// An entry of a folder.
pub(crate) struct Listing {
    pub(crate) folders: Vec<String>,
    pub(crate) files: Vec<String>,
}

impl Store {
    /// Returns the names in `folder`, which ends with `/` or is empty for the store itself. Names that begin with
    /// `.` are reserved and left out; a folder that does not exist is empty.
    pub(crate) async fn list(&self, folder: &str) -> Result<Listing, StoreError> {
        let operator = self.reading().await?;
        let mut listing = Listing {
            folders: Vec::new(),
            files: Vec::new(),
        };
        let entries = match operator
            .list(if folder.is_empty() { "/" } else { folder })
            .await
        {
            Ok(entries) => entries,
            Err(error) if is_missing(&error) => return Ok(listing),
            Err(error) => return Err(self.access("list", folder, &error)),
        };
        for entry in entries {
            // Some services list the folder itself as well; its name is empty here.
            let name = entry.path().strip_prefix(folder).unwrap_or_default();
            let name = name.trim_matches('/');
            if name.is_empty() || name.starts_with('.') || name.contains('/') {
                continue;
            }
            if entry.path().ends_with('/') || entry.metadata().mode() == EntryMode::DIR {
                listing.folders.push(name.to_owned());
            } else {
                listing.files.push(name.to_owned());
            }
        }
        Ok(listing)
    }

    /// Returns the content of `key`, in one request.
    pub(crate) async fn fetch(&self, key: &str) -> Result<Vec<u8>, StoreError> {
        let operator = self.reading().await?;
        let failed = |error| {
            if is_missing(&error) {
                return self.missing(key);
            }
            self.access("read", key, &error)
        };
        let reader = operator.reader(key).await.map_err(failed)?;
        let mut stream = reader.into_stream(..).await.map_err(failed)?;
        let mut content = Vec::new();
        while let Some(piece) = poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await {
            content.extend_from_slice(&piece.map_err(failed)?.to_bytes());
            if content.len() as u64 > OBJECT_LIMIT_BYTES {
                return Err(StoreError::Format {
                    key: key.to_owned(),
                    source: FormatError::TooLarge {
                        limit_bytes: OBJECT_LIMIT_BYTES,
                    },
                });
            }
        }
        Ok(content)
    }

    /// Writes an object that is never to change, and sees to it that it outlives a crash. That it is there already with
    /// the same content is fine: a write whose answer was lost is repeated.
    pub(crate) async fn put_new(&self, key: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let operator = self.writing().await?;
        match write(&operator, key, bytes, Existing::Keep).await {
            Ok(()) => {
                self.settle(key).await;
                Ok(())
            }
            Err(error) if is_taken(&error) => {
                if self.fetch(key).await? == bytes {
                    return Ok(());
                }
                Err(StoreError::Conflict {
                    key: key.to_owned(),
                    location: self.location().to_owned(),
                })
            }
            Err(error) => Err(self.access("write", key, &error)),
        }
    }

    /// Writes an object whole, whatever was there.
    pub(crate) async fn replace(&self, key: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let operator = self.writing().await?;
        write(&operator, key, bytes, Existing::Replace)
            .await
            .map_err(|error| self.access("write", key, &error))
    }

    /// Deletes an object; one that is not there is fine.
    pub(crate) async fn delete(&self, key: &str) -> Result<(), StoreError> {
        let operator = self.writing().await?;
        let deleted = operator.delete(key).await;
        deleted.map_err(|error| self.access("delete", key, &error))
    }

    /// Returns which version of `key` is there.
    pub(crate) async fn look(&self, key: &str) -> Result<Seen, StoreError> {
        let operator = match self.reading().await {
            Ok(operator) => operator,
            Err(StoreError::NoStore { .. }) => return Ok(Seen::Absent),
            Err(error) => return Err(error),
        };
        match self.metadata(&operator, key).await {
            Ok(metadata) => Ok(Seen::As {
                size_bytes: metadata.content_length(),
                modified: metadata.last_modified().map(|time| time.to_string()),
                etag: metadata.etag().map(str::to_owned),
            }),
            Err(StoreError::NotFound { .. }) => Ok(Seen::Absent),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the snapshot at `key` is there.
    pub async fn has(&self, key: &Key) -> Result<bool, StoreError> {
        let seen = self.look(&key.to_string()).await?;
        Ok(matches!(seen, Seen::As { .. }))
    }

    pub(crate) fn missing(&self, key: &str) -> StoreError {
        StoreError::NotFound {
            key: key.to_owned(),
            location: self.location().to_owned(),
        }
    }

    async fn metadata(&self, operator: &Operator, key: &str) -> Result<Metadata, StoreError> {
        match operator.stat(key).await {
            Ok(metadata) => Ok(metadata),
            Err(error) if is_missing(&error) => Err(self.missing(key)),
            Err(error) => Err(self.access("look at", key, &error)),
        }
    }

    pub(crate) fn access(
        &self,
        verb: &'static str,
        key: &str,
        error: &opendal::Error,
    ) -> StoreError {
        StoreError::Access {
            key: key.to_owned(),
            location: self.location().to_owned(),
            source: Fault::of(error),
            verb,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Keep,
    Replace,
}

/// Writes an object. That one which exists is kept is asked of the service itself where it can do that; of what does
/// not understand the question, although it should, the object is looked at first.
async fn write(
    operator: &Operator,
    key: &str,
    bytes: &[u8],
    existing: Existing,
) -> Result<(), opendal::Error> {
    let can_keep = operator.info().capability().write_with_if_not_exists;
    if existing == Existing::Replace || !can_keep {
        return write_once(operator, key, bytes, false).await;
    }
    match write_once(operator, key, bytes, true).await {
        Err(error) if is_not_understood(&error) => {
            if operator.exists(key).await? {
                return Err(opendal::Error::new(
                    ErrorKind::ConditionNotMatch,
                    "it exists",
                ));
            }
            write_once(operator, key, bytes, false).await
        }
        written => written,
    }
}

async fn write_once(
    operator: &Operator,
    key: &str,
    bytes: &[u8],
    only_new: bool,
) -> Result<(), opendal::Error> {
    let mut writing = operator.writer_with(key).if_not_exists(only_new);
    if operator.info().capability().write_with_content_type {
        writing = writing.content_type(content_type(key));
    }
    let mut writer = writing.await?;
    let written = match writer.write(bytes.to_vec()).await {
        Ok(()) => writer.close().await.map(|_| ()),
        Err(error) => Err(error),
    };
    if written.is_err() {
        // Removes what has grown so far. The first error is the one to report.
        let _ = writer.abort().await;
    }
    written
}

fn content_type(key: &str) -> &'static str {
    let extension = key.rsplit('.').next().unwrap_or_default();
    match extension {
        "gz" => "application/gzip",
        "json" => "application/json",
        _ => "application/octet-stream",
    }
}

/// Whether the service does not know how to keep what exists, such as older ones that speak the protocol of S3.
fn is_not_understood(error: &opendal::Error) -> bool {
    error.kind() == ErrorKind::Unsupported || error.message().contains("NotImplemented")
}
