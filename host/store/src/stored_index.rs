//! The index of the writer and the one in the store, kept in step.
//!
//! Another collector may write to the same place, so each write looks first whether the stored index is still the
//! one last seen, and takes over what is new in it. A short index is written after each snapshot, a longer one when the
//! snapshots stored since outweigh it by far: what it lacks meanwhile is found by listing. So what is uploaded of it is a
//! small share of the snapshots, whatever the interval.

use std::time::Duration;

use model::{SnapshotId, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::beside::Beside;
use crate::deadline::Deadline;
use crate::error::root_cause;
use crate::index::{Index, Listed, in_order};
use crate::object::Seen;
use crate::retention::Retention;
use crate::retiring::retire;
use crate::spool_handle::SpoolHandle;
use crate::{Place, Store, StoreError, format, segment};

/// Up to so many entries, about 13 kB, it is written after each snapshot: 0.2 MB, once.
const SHORT_ENTRIES: usize = 32;
/// A longer one is written when the snapshots stored since the last time weigh so many times what it does: with 35 kB for a
/// snapshot and 400 bytes for an entry, after an eighth of the snapshots that it lists.
const OUTWEIGHED: u64 = 12;
/// How long it may lack small snapshots, which seldom outweigh it: 24 times 100 kB a day at most.
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// Unlisted snapshots that are opened before the index is written; the others have their turn at the next write.
const OPENED_AT_A_WRITE: usize = 64;

/// The index of the writer's place.
pub(crate) struct StoredIndex {
    /// The stored one lacks something that is in `index`.
    behind: bool,
    /// What lies beside the snapshots, as far as retention must know.
    beside: Beside,
    clock: Option<(Timestamp, Instant)>,
    deadline: Deadline,
    /// What the spool threw away that the stored index does not count yet.
    evicted: u64,
    /// The size of the snapshots that were added since it was last written.
    fresh_bytes: u64,
    index: Index,
    key: String,
    place: Place,
    retention: watch::Receiver<Retention>,
    said_that_it_fails: bool,
    said_that_another_writes: bool,
    seen: Seen,
    /// What the stored index counts and the spool still does as well.
    settled: u64,
    /// The size of the stored one as it was last written; 0 before.
    size_bytes: u64,
    /// Snapshots that lie there and that no index lists, oldest last.
    unlisted: Vec<SnapshotId>,
    /// When it was last written.
    written: Option<Instant>,
}

impl StoredIndex {
    pub(crate) fn new(place: Place, index: Index, deadline: Deadline) -> Self {
        Self {
            behind: false,
            beside: Beside::default(),
            clock: None,
            deadline,
            evicted: 0,
            fresh_bytes: 0,
            index,
            key: place.index_key(),
            place,
            retention: watch::channel(Retention::default()).1,
            said_that_it_fails: false,
            said_that_another_writes: false,
            seen: Seen::Unknown,
            settled: 0,
            size_bytes: 0,
            unlisted: Vec::new(),
            written: None,
        }
    }

    /// Heeds what `retention` says from here on.
    pub(crate) fn with_retention(self, retention: watch::Receiver<Retention>) -> Self {
        Self { retention, ..self }
    }

    /// Returns when it is to be written: not at all where the stored one lacks nothing.
    pub(crate) fn due(&self) -> Option<Instant> {
        let now = Instant::now();
        let wait = self.written.map(|written| written + self.wait());
        self.behind.then(|| wait.unwrap_or(now).max(now))
    }

    /// Returns whether it is to be written at once.
    pub(crate) fn is_due(&self) -> bool {
        self.due().is_some_and(|due| due <= Instant::now())
    }

    /// Returns whether the stored one lacks something.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind
    }

    /// Returns how long after a write the next one is due.
    pub(crate) fn wait(&self) -> Duration {
        let is_short = self.index.snapshots.len() <= SHORT_ENTRIES;
        let is_outweighed = self.fresh_bytes >= OUTWEIGHED * self.size_bytes;
        // What is left unlisted has its turn with the next write.
        if is_short || is_outweighed || !self.unlisted.is_empty() {
            Duration::ZERO
        } else {
            LONGEST_WAIT
        }
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        let unlisted = self.unlisted.iter().map(|id| id.sequence.saturating_add(1));
        unlisted.max().unwrap_or(0).max(self.index.next_sequence())
    }

    /// Takes note of the time; later times count from here.
    pub(crate) fn set_clock(&mut self, now: Timestamp) {
        self.clock = Some((now, Instant::now()));
    }

    /// Adds a snapshot that is stored; [`StoredIndex::write`] says so in the store.
    pub(crate) fn add(&mut self, listed: Listed) {
        self.fresh_bytes += listed.entry.size_bytes;
        self.index.add(listed);
        self.behind = true;
    }

    /// Takes note of the snapshots that an obituary names, stored or not yet: retention leaves them.
    pub(crate) fn cite(&mut self, obituaries: &[u8]) {
        self.beside.cite(obituaries);
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

    /// Returns whether neither it nor the store has anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.index.snapshots.is_empty() && self.index.sealed.is_none() && self.unlisted.is_empty()
    }

    /// Takes over what is in the store. Snapshots that no index lists are opened later.
    pub(crate) async fn read(&mut self, store: &Store) -> Result<(), StoreError> {
        // Looked at first: what changes after it is then seen as changed.
        let seen = self.look(store).await?;
        let there = store.index_and_unlisted(&self.place);
        let (stored, mut unlisted) = match self.deadline.limit(store, there).await {
            Ok(there) => there,
            Err(StoreError::NoStore { .. }) => (None, Vec::new()),
            Err(error) => return Err(error),
        };
        if let Some(stored) = stored {
            self.forget_sealed(store, &stored).await?;
            self.index.merge(stored);
        }
        let known = self.index.ids();
        unlisted.retain(|id| !known.contains(id));
        unlisted.reverse();
        self.behind |= !unlisted.is_empty();
        self.unlisted = unlisted;
        self.seen = seen;
        Ok(())
    }

    /// Replaces the stored index; warns when that begins to fail, and returns whether it went well.
    pub(crate) async fn write(&mut self, store: &Store) -> bool {
        let result = self.try_write(store).await;
        self.behind = result.is_err() || !self.unlisted.is_empty();
        let Err(error) = result else {
            self.said_that_it_fails = false;
            self.written = Some(Instant::now());
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
        self.open_unlisted(store).await;
        self.seal(store).await?;
        let (retention, now) = (*self.retention.borrow(), self.now());
        let (index, beside) = (&mut self.index, &mut self.beside);
        let retiring = retire(store, &self.place, index, beside, retention, now);
        self.deadline.limit(store, retiring).await?;
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
        (self.fresh_bytes, self.size_bytes) = (0, text.len() as u64);
        let after = self.look(store).await?;
        // Of another size, it is another collector's already, to be read before the next write.
        let size = text.len() as u64;
        let is_ours = matches!(after, Seen::As { size_bytes, .. } if size_bytes == size);
        self.seen = if is_ours { after } else { Seen::Unknown };
        Ok(())
    }

    /// Opens some of the snapshots that no index lists. Where that fails, the next collector tries again: readers find them
    /// by listing, and the index must not wait for them.
    async fn open_unlisted(&mut self, store: &Store) {
        let left = self.unlisted.len().saturating_sub(OPENED_AT_A_WRITE);
        let ids = self.unlisted.split_off(left);
        let opening = store.listed(&self.place, ids);
        match self.deadline.limit(store, opening).await {
            Ok(all) => all.into_iter().for_each(|listed| self.index.add(listed)),
            Err(error) => {
                tracing::debug!(error = %root_cause(&error), "Snapshots that no index lists cannot be opened.");
            }
        }
    }

    /// Moves older entries into segments. Each segment is stored before the index that lacks its entries, so that one of
    /// the two has them whenever we are stopped; one that is stored already, by us or by another, is the same.
    async fn seal(&mut self, store: &Store) -> Result<(), StoreError> {
        while let Some(half) = self.index.older_half() {
            let sealed = segment::encode(&half).map_err(StoreError::Encode)?;
            let Some((name, bytes)) = sealed else {
                return Ok(());
            };
            let key = name.key(&self.place);
            let put = store.put_new(&key, &bytes);
            self.deadline.limit(store, put).await?;
            self.index.seal(&half);
        }
        Ok(())
    }

    /// Drops entries of ours that another collector has sealed since.
    async fn forget_sealed(&mut self, store: &Store, stored: &Index) -> Result<(), StoreError> {
        let ours = self.index.sealed.map(|sealed| in_order(sealed.last));
        let Some(theirs) = stored.sealed.filter(|it| Some(in_order(it.last)) > ours) else {
            return Ok(());
        };
        let oldest = self.index.snapshots.first();
        if oldest.is_none_or(|oldest| in_order(oldest.capture_id) > in_order(theirs.last)) {
            return Ok(());
        }
        let mut names = store.segments(&self.place).await?;
        names.retain(|name| ours.is_none_or(|ours| in_order(name.last) > ours));
        for segment in store.open_segments(&self.place, names).await? {
            self.index.forget(&segment.ids());
        }
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

/// Replaces the stored index, with what the spool had to throw away; returns whether that went well.
pub(crate) async fn write_index(
    index: &mut StoredIndex,
    spool: &SpoolHandle,
    place: &Place,
    store: &Store,
) -> bool {
    index.set_evicted(spool.evicted_of(place.clone()).await);
    let is_written = index.write(store).await;
    if index.settled() > 0 {
        match spool.forget_evicted(place.clone(), index.settled()).await {
            Ok(()) => index.forgotten(),
            Err(error) => {
                tracing::debug!(%error, "The spool goes on counting what the index has counted.");
            }
        }
    }
    is_written
}
