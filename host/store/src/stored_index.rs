//! The index of the writer and the one in the store, kept in step.
//!
//! Another collector may write to the same place, so each write looks first whether the stored index is still the
//! one last seen, and takes over what is new in it.

use model::Timestamp;
use tokio::time::Instant;

use crate::deadline::Deadline;
use crate::error::root_cause;
use crate::index::{Index, Listed};
use crate::object::Seen;
use crate::{Place, Store, StoreError, format};

/// The index of the writer's place.
pub(crate) struct StoredIndex {
    /// The stored one lacks something that is in `index`.
    behind: bool,
    clock: Option<(Timestamp, Instant)>,
    deadline: Deadline,
    /// What the spool threw away that the stored index does not count yet.
    evicted: u64,
    index: Index,
    key: String,
    place: Place,
    said_that_it_fails: bool,
    said_that_another_writes: bool,
    seen: Seen,
    /// What the stored index counts and the spool still does as well.
    settled: u64,
}

impl StoredIndex {
    pub(crate) fn new(place: Place, index: Index, deadline: Deadline) -> Self {
        Self {
            behind: false,
            clock: None,
            deadline,
            evicted: 0,
            index,
            key: place.index_key(),
            place,
            said_that_it_fails: false,
            said_that_another_writes: false,
            seen: Seen::Unknown,
            settled: 0,
        }
    }

    /// Returns whether a write failed and is to be made good.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.index.next_sequence()
    }

    /// Takes note of the time; later times count from here.
    pub(crate) fn set_clock(&mut self, now: Timestamp) {
        self.clock = Some((now, Instant::now()));
    }

    /// Adds a snapshot that is stored; [`StoredIndex::write`] says so in the store.
    pub(crate) fn add(&mut self, listed: Listed) {
        self.index.add(listed);
        self.behind = true;
    }

    /// Takes note of what the spool counts as thrown away; [`StoredIndex::write`] says so in the store.
    pub(crate) fn set_evicted(&mut self, count: u64) {
        self.evicted = count.saturating_sub(self.settled);
    }

    /// Returns how many of those the stored index counts, for the spool to forget.
    pub(crate) fn settled(&self) -> u64 {
        self.settled
    }

    /// Takes note that the spool has forgotten them.
    pub(crate) fn forgotten(&mut self) {
        self.settled = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.index.snapshots.is_empty()
    }

    /// Takes over what is in the store.
    pub(crate) async fn read(&mut self, store: &Store) -> Result<(), StoreError> {
        // Looked at first: what changes after it is then seen as changed.
        let seen = self.look(store).await?;
        let stored = store.index(&self.place);
        match self.deadline.limit(store, stored).await {
            Ok(index) => self.index.merge(index),
            Err(StoreError::NotFound { .. } | StoreError::NoStore { .. }) => {}
            Err(error) => return Err(error),
        }
        self.seen = seen;
        Ok(())
    }

    /// Replaces the stored index; warns when that begins to fail, and returns whether it went well.
    pub(crate) async fn write(&mut self, store: &Store) -> bool {
        let result = self.try_write(store).await;
        self.behind = result.is_err();
        let Err(error) = result else {
            self.said_that_it_fails = false;
            return true;
        };
        if !self.said_that_it_fails {
            self.said_that_it_fails = true;
            tracing::warn!(
                store = store.location(),
                error = %root_cause(&error),
                "The index cannot be written; the snapshots are stored."
            );
        }
        false
    }

    async fn try_write(&mut self, store: &Store) -> Result<(), StoreError> {
        let found = self.look(store).await?;
        if found != self.seen {
            self.read_another(store).await?;
        }
        self.index.updated_at = self.now();
        let counted = self.index.evicted_count;
        if self.evicted > 0 {
            self.index.evicted_count = Some(counted.unwrap_or(0) + self.evicted);
        }
        let text = format::to_json(&self.index).map_err(StoreError::Encode);
        let counted_now = std::mem::replace(&mut self.index.evicted_count, counted);
        let text = text?;
        let replaced = store.replace(&self.key, &text);
        self.deadline.limit(store, replaced).await?;
        self.index.evicted_count = counted_now;
        self.settled += std::mem::take(&mut self.evicted);
        let after = self.look(store).await?;
        // Of another size, it is another collector's already, to be read before the next write.
        let size = text.len() as u64;
        let is_ours = matches!(after, Seen::As { size_bytes, .. } if size_bytes == size);
        self.seen = if is_ours { after } else { Seen::Unknown };
        Ok(())
    }

    async fn read_another(&mut self, store: &Store) -> Result<(), StoreError> {
        let is_first_look = self.seen == Seen::Unknown;
        let known = self.index.snapshots.len();
        self.read(store).await?;
        let is_news = self.index.snapshots.len() > known && !is_first_look;
        if is_news && !self.said_that_another_writes {
            self.said_that_another_writes = true;
            tracing::warn!(
                index = self.key,
                "Another collector writes to the same place."
            );
        }
        Ok(())
    }

    async fn look(&self, store: &Store) -> Result<Seen, StoreError> {
        self.deadline.limit(store, store.look(&self.key)).await
    }

    fn now(&self) -> Timestamp {
        let newest = self.index.snapshots.last();
        match (self.clock, newest) {
            (Some((at, since)), _) => at.after(since.elapsed()),
            (None, Some(entry)) => entry.completed_at.max(self.index.updated_at),
            (None, None) => self.index.updated_at,
        }
    }
}
