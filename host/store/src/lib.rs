//! Snapshots to object storage and back: the only crate that knows a storage service.
//!
//! Below a store (a directory, or an `OpenDAL` URL) lies
//! `<task path>/attempt-<n>/diagnostics/node-<node>/` with `snapshots/<id>.json.gz`, written once and never changed,
//! `index.json`, which makes reading cheap, is replaced whole, and can be rebuilt, and `index/`, its older parts.
//! Path segments that begin with `.` are reserved for the writers' own files and are never listed.
//! These are the paths and documents of `metaflow_pyspy`, so its reader reads this store and ours reads its.

mod alignment;
mod at;
mod backoff;
mod bare;
mod beside;
mod claim;
mod clocks;
mod deadline;
mod delivery;
mod drain;
mod error;
mod fault;
mod folded;
mod format;
mod history;
mod index;
mod key;
mod layers;
mod leftovers;
mod listing;
mod location;
mod object;
mod open;
mod options;
mod parcel;
mod plugin_objects;
mod probe;
mod push;
mod reader;
mod record;
mod records;
mod report_turn;
mod retention;
mod retiring;
mod segment;
mod service;
mod spool;
mod spool_files;
mod spool_handle;
mod stored_index;
mod summary;
mod timeline;
mod together;
mod unlisted;
mod writer;

#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;

pub use alignment::{Offset, offset};
pub use at::At;
#[doc(hidden)]
pub use bare::BareIndex;
pub use clocks::Clock;
pub use error::{FormatError, StoreError};
pub use fault::Fault;
pub use format::{decode, decode_copy, decode_within, encode, encode_json};
pub use history::{Entry, Facts, History, Since};
pub use index::{Index, IndexEntry, Retired, Sealed};
pub use key::{Key, ParseKeyError, Place};
pub use location::{Location, Service};
pub use open::Store;
pub use plugin_objects::PluginObjects;
pub use probe::Check;
pub use push::{Pushed, next_spooled_attempt, push, spool_address};
pub use reader::TaskEntry;
pub use record::{Record, RecordKey, RecordKind, RecordName};
pub use records::Records;
pub use retention::Retention;
pub use spool::SpoolSettings;
pub use summary::NodeSummary;
pub use timeline::{Timeline, TimelineNode};
pub use writer::{Fate, Summary, Writer, Written};
