//! Why a store, or something in it, cannot be used.

use std::error::Error;
use std::time::Duration;

use crate::Fault;

/// Why a store, or something in it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The text names neither a directory nor a URL.
    #[error("`{text}` names no store: {reason}")]
    Location {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nothing at the location to read.
    #[error("there is no store at {location}")]
    NoStore {
        /// The directory.
        location: String,
    },
    /// The store cannot be opened or created.
    #[error("cannot open the store {location}")]
    Open {
        /// The directory or URL.
        location: String,
        /// What the storage service said.
        source: Fault,
    },
    /// An object cannot be read, written or listed.
    #[error("cannot {verb} `{key}` in {location}")]
    Access {
        /// The object or folder, relative to the store.
        key: String,
        /// The directory or URL.
        location: String,
        /// What the storage service said.
        source: Fault,
        /// What was tried: `list`, `read`, `write`, …
        verb: &'static str,
    },
    /// The storage service did not answer in time.
    #[error("{location} did not answer within {:.1} s", patience.as_secs_f64())]
    OutOfTime {
        /// The directory or URL.
        location: String,
        /// How long it was waited for.
        patience: Duration,
    },
    /// The runtime that would have gone on asking is being closed.
    #[error("{location} is not asked any more: this process is about to end")]
    Closed {
        /// The directory or URL.
        location: String,
    },
    /// The store has no such object.
    #[error("{location} has no `{key}`")]
    NotFound {
        /// The object, relative to the store.
        key: String,
        /// The directory or URL.
        location: String,
    },
    /// Another snapshot has the same key, such as one of a second collector for the same node.
    #[error("{location} holds another snapshot as `{key}`")]
    Conflict {
        /// The object, relative to the store.
        key: String,
        /// The directory or URL.
        location: String,
    },
    /// An object cannot be understood.
    #[error("cannot read `{key}`")]
    Format {
        /// The object, relative to the store.
        key: String,
        /// What is wrong with its content.
        source: FormatError,
    },
    /// A snapshot cannot be stored, because it could not be read back.
    #[error("the snapshot cannot be encoded")]
    Encode(#[source] FormatError),
}

impl StoreError {
    /// Returns what a person can do about it, where that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Open { source, .. } | Self::Access { source, .. } => source.remedy(),
            Self::OutOfTime { .. } => {
                Some("check endpoint, name resolution, proxy and firewall from this machine")
            }
            _ => None,
        }
    }
}

/// Why bytes are no document, or a snapshot cannot become one.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// It is not gzip, or torn.
    #[error("it is torn or not gzip")]
    Gzip(#[source] std::io::Error),
    /// It is not JSON, or lacks a field.
    #[error("it is no such document")]
    Json(#[source] serde_json::Error),
    /// A later major version of the format.
    #[error("it has schema version {version}, and this build reads 1.x; use a newer taskscope")]
    Version {
        /// The `schema_version` of the document.
        version: String,
    },
    /// It is larger than anything that was written by us.
    #[error("it is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// JSON has no infinity and no NaN.
    #[error("{field} is not a finite number")]
    NotFinite {
        /// An RFC 6901 pointer into the snapshot.
        field: String,
    },
}

/// Returns the innermost cause, which is what the system or the service itself said.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
