//! Sinks: plugins that bring snapshots to the outside, beside the store and never before it.
//!
//! Each runs on a thread of its own with a queue of its own. What they may do outside is in their grants
//! and nowhere else: [`grant`] says which hosts and addresses, [`secrets`] keeps what a plugin may use and not see.

mod client;
mod delivery;
mod entry;
mod grant;
mod outside;
mod queue;
mod rehearsal;
mod secrets;
mod sinks;
mod storage;

pub use entry::{Access, Directory, Secret, SinkEntry, SinkGrants};
pub use grant::{HttpGrant, ParseGrantError};
pub use rehearsal::{Rehearsal, Rehearsed};
pub use sinks::Sinks;
pub use storage::{Reply, Storage, StorageError, StorageRequest};

pub(crate) use client::{Asked, Filled};
pub(crate) use outside::Outside;
pub(crate) use storage::checked_path;
