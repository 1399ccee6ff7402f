//! Snapshots to object storage and back: the only crate that knows a storage service.
//!
//! Below a store (a directory, or an `OpenDAL` URL) lies
//! `<task path>/attempt-<n>/diagnostics/node-<node>/` with `snapshots/<id>.json.gz`, written once and never changed,
//! and `index.json`, which makes reading cheap, is replaced whole, and can be rebuilt from the snapshots.
//! Path segments that begin with `.` are reserved for the writers' own files and are never listed.
//! These are the paths and documents of `metaflow_pyspy`, so its reader reads this store and ours reads its.

mod backoff;
mod deadline;
mod delivery;
mod error;
mod format;
mod index;
mod key;
mod location;
mod object;
mod open;
mod probe;
mod reader;
mod spool;
mod spool_handle;
mod stored_index;
mod writer;

#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;

pub use error::{FormatError, StoreError};
pub use format::{decode, decode_copy, encode, encode_json};
pub use index::{Index, IndexEntry};
pub use key::{Key, ParseKeyError, Place};
pub use location::Location;
pub use open::Store;
pub use reader::TaskEntry;
pub use spool::SpoolSettings;
pub use writer::{Fate, Summary, Writer, Written};
