//! When a report is stored, which is replaced again and again: in a directory at once, at a service once a minute.

use std::time::Duration;

use tokio::time::Instant;

use crate::Store;

/// How long after one report the next is given to a service: 1,440 requests a day.
const PAUSE: Duration = Duration::from_mins(1);

/// Whose turn the report in the spool has.
#[derive(Debug)]
pub(crate) struct ReportTurn {
    due: Option<Instant>,
    pause: Duration,
    stored: Option<Instant>,
}

impl ReportTurn {
    pub(crate) fn new(store: Option<&Store>) -> Self {
        let is_directory = store.is_some_and(Store::is_directory);
        Self {
            due: None,
            pause: if is_directory { Duration::ZERO } else { PAUSE },
            stored: None,
        }
    }

    /// Returns whether a new one, which is in the spool, waits there for its turn.
    pub(crate) fn must_wait(&mut self) -> bool {
        self.due = self.stored.map(|stored| stored + self.pause);
        self.waits()
    }

    /// Returns whether the one in the spool is not due yet.
    pub(crate) fn waits(&self) -> bool {
        self.due.is_some_and(|due| due > Instant::now())
    }

    /// Returns whether the one in the spool has waited long enough.
    pub(crate) fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }

    /// Returns when one that waits in the spool is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Takes note that the newest is stored.
    pub(crate) fn stored(&mut self) {
        *self = Self {
            due: None,
            stored: Some(Instant::now()),
            ..*self
        };
    }

    /// Makes the one in the spool due at once, because we end; returns whether one waited.
    pub(crate) fn hurry(&mut self) -> bool {
        self.due.take().is_some()
    }
}
