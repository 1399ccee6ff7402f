//! What the background task says of store and spool: once, until it has changed.

use tokio::time::Instant;

use super::Delivery;
use crate::error::root_cause;
use crate::{Store, StoreError};

/// What was said of the spool, and is not said again.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Until something can be kept again.
    pub(super) all_is_lost: bool,
    spool_is_full: bool,
}

impl Delivery {
    pub(super) async fn say_when_spool_is_full(&mut self) {
        if self.spool.evicted().await > 0 && !self.said.spool_is_full {
            self.said.spool_is_full = true;
            tracing::warn!(
                spool = %self.spool.directory().display(),
                "The spool is full; the oldest snapshots in it are thrown away."
            );
        }
    }

    pub(super) fn store_failed(&mut self, store: &Store, error: &StoreError) {
        self.backoff.failed(Instant::now());
        if std::mem::replace(&mut self.store_is_down, true) {
            return;
        }
        tracing::warn!(
            store = store.location(),
            error = %root_cause(error),
            remedy = error.remedy().unwrap_or("`taskscope doctor --store` tells more"),
            spool = %self.spool.directory().display(),
            "The store takes no snapshots; they wait in the spool."
        );
    }

    pub(super) fn store_works(&mut self, store: &Store) {
        self.backoff.succeeded();
        if std::mem::take(&mut self.store_is_down) {
            tracing::info!(store = store.location(), "The store takes snapshots again.");
        }
    }
}
