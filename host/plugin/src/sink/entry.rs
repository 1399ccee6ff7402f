//! What the settings say about a sink.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::{HttpGrant, Storage};
use crate::entry::Entry;

/// One sink to load: a `[[sink]]` entry.
#[derive(Clone, Debug)]
pub struct SinkEntry {
    /// What it has in common with every plugin.
    pub entry: Entry,
    /// What it may do outside.
    pub grants: SinkGrants,
}

/// What a sink may do outside: nothing by default.
#[derive(Clone, Debug, Default)]
pub struct SinkGrants {
    /// Directories that it sees.
    pub directories: Vec<Directory>,
    /// Hosts that it may talk to.
    pub http: Vec<HttpGrant>,
    /// Names that it may write in a template, and what the host puts there; nothing where that is not set.
    pub secrets: BTreeMap<String, Option<Secret>>,
    /// Where objects of its own go.
    pub storage: Option<Storage>,
}

/// A directory that a sink sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// What it may do there.
    pub access: Access,
    /// Its path for the sink.
    pub guest: String,
    /// Its path for us.
    pub host: PathBuf,
}

/// What may be done in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read.
    Read,
    /// Read and write.
    ReadWrite,
}

/// A value that nobody gets to see, not even in a debugging message.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Keeps `value`.
    pub fn new(value: String) -> Self {
        Self(value)
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}
