//! The snapshots of one node in their order, from its index, its segments and what lies there: as much as is asked for.
//!
//! Order is by sequence number, never by the wall clock alone. What an index lacks is found by listing from the oldest
//! snapshot that was asked for.

use std::collections::{BTreeMap, BTreeSet};

use model::{SnapshotId, Timestamp, Trigger};

use crate::error::FormatError;
use crate::index::{Index, IndexEntry, Retired, in_order};
use crate::key::{file_name, parse_file_name};
use crate::segment::SegmentName;
use crate::together::Together;
use crate::{Key, Place, Store, StoreError, format};

/// How far back a history goes at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// As far as the index alone tells: about a thousand snapshots, or five hundred.
    Recent,
    /// To the snapshots of this time.
    Time(Timestamp),
    /// To the first.
    Start,
}

/// The snapshots of one node, from a time on.
#[derive(Clone, Debug)]
pub struct History {
    /// By sequence number, then by time.
    pub entries: Vec<Entry>,
    /// How many older ones there are that were not asked for.
    pub older: u64,
    /// What retention has deleted.
    pub retired: Option<Retired>,
}

/// One snapshot of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its identity; with the node's place, its key.
    pub id: SnapshotId,
    /// What an index says of it; absent where none lists it yet.
    pub listed: Option<Facts>,
}

/// What an index says of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How many findings cite it.
    pub findings: u64,
    /// How many processes it has.
    pub process_count: u64,
    /// The size of the object, compressed.
    pub size_bytes: u64,
    /// When discovery began.
    pub started_at: Timestamp,
    /// What caused it.
    pub trigger: Option<Trigger>,
}

impl Entry {
    /// Returns when the snapshot was taken.
    pub fn at(&self) -> Timestamp {
        self.listed.map_or(self.id.stamp, |facts| facts.started_at)
    }
}

impl From<&IndexEntry> for Entry {
    fn from(entry: &IndexEntry) -> Self {
        Self {
            id: entry.capture_id,
            listed: Some(Facts {
                findings: entry.findings,
                process_count: entry.process_count,
                size_bytes: entry.size_bytes,
                started_at: entry.started_at,
                trigger: entry.trigger,
            }),
        }
    }
}

impl Store {
    /// Returns the snapshots of `place` since a time, those included that no index lists. Two requests where the index
    /// goes back so far; else one more, and one for each segment. [`StoreError::NotFound`] where there is neither index nor
    /// snapshot.
    pub async fn history(&self, place: &Place, since: Since) -> Result<History, StoreError> {
        let head = self.head(place).await?;
        let oldest = head.as_ref().and_then(|index| index.snapshots.first());
        let is_enough = match (&head, since) {
            (Some(index), _) if index.sealed.is_none() => true,
            (Some(_), Since::Recent) => true,
            (Some(_), Since::Time(time)) => oldest.is_some_and(|entry| entry.started_at <= time),
            (None, _) | (Some(_), Since::Start) => false,
        };
        let mut entries: BTreeMap<(u64, Timestamp), Entry> = BTreeMap::new();
        let mut sealed = 0;
        if !is_enough {
            let all = self.segments(place).await?;
            let wanted = all.into_iter().filter(|name| match since {
                Since::Time(time) => name.first.stamp.max(name.last.stamp) >= time,
                Since::Recent | Since::Start => true,
            });
            for segment in self.open_segments(place, wanted.collect()).await? {
                entries.extend(placed(&segment.snapshots));
            }
            sealed = entries.len() as u64;
        }
        if let Some(index) = &head {
            entries.extend(placed(&index.snapshots));
        }
        // Without an index nothing is known to be older.
        let from = head.as_ref().and_then(|_| {
            let oldest = entries.values().map(|entry| entry.id.stamp).min();
            match since {
                Since::Start => None,
                Since::Recent => oldest,
                Since::Time(time) => oldest.map(|oldest| oldest.min(time)),
            }
        });
        let found = self.ids_from(place, from).await?;
        let retired = head.as_ref().and_then(|index| index.retired);
        if head.is_none() {
            // What retention has deleted was in the index that is lost.
            let found: BTreeSet<SnapshotId> = found.iter().copied().collect();
            entries.retain(|_, entry| found.contains(&entry.id));
        }
        drop_retired(&mut entries, retired, &found);
        for id in found {
            entries
                .entry(in_order(id))
                .or_insert(Entry { id, listed: None });
        }
        if head.is_none() && entries.is_empty() {
            return Err(self.missing(&place.index_key()));
        }
        let in_segments = head.and_then(|index| index.sealed);
        Ok(History {
            entries: entries.into_values().collect(),
            older: in_segments.map_or(0, |all| all.snapshots.saturating_sub(sealed)),
            retired,
        })
    }

    /// Returns the index as it is stored; `None` for a missing or torn one. One of a later major version is an
    /// error, so that nobody replaces it.
    pub(crate) async fn head(&self, place: &Place) -> Result<Option<Index>, StoreError> {
        let key = place.index_key();
        let text = match self.fetch(&key).await {
            Ok(text) => text,
            Err(StoreError::NotFound { .. } | StoreError::NoStore { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        match self.aside(move || format::from_json(&text)).await? {
            Ok(index) => Ok(Some(index)),
            Err(source @ FormatError::Version { .. }) => Err(StoreError::Format { key, source }),
            Err(error) => {
                tracing::warn!(index = %key, %error, "The index is torn; reading the snapshots instead.");
                Ok(None)
            }
        }
    }

    /// Returns the names of the segments of `place`, oldest first.
    pub(crate) async fn segments(&self, place: &Place) -> Result<Vec<SegmentName>, StoreError> {
        let objects = self.objects_after(&place.index_folder(), None).await?;
        let mut names: Vec<SegmentName> = objects
            .iter()
            .filter_map(|object| SegmentName::parse(&object.name))
            .collect();
        names.sort_by_key(SegmentName::in_order);
        Ok(names)
    }

    /// Opens segments. One that cannot be understood is left out: what it lists is found by listing.
    pub(crate) async fn open_segments(
        &self,
        place: &Place,
        names: Vec<SegmentName>,
    ) -> Result<Vec<Index>, StoreError> {
        let mut opening = Together::default();
        let mut segments = Vec::new();
        for name in names {
            let (store, key) = (self.clone(), name.key(place));
            segments.extend(
                opening
                    .add(async move { store.open_segment(key).await })
                    .await,
            );
        }
        segments.extend(opening.rest().await);
        let opened: Result<Vec<Option<Index>>, StoreError> = segments.into_iter().collect();
        Ok(opened?.into_iter().flatten().collect())
    }

    async fn open_segment(&self, key: String) -> Result<Option<Index>, StoreError> {
        let bytes = match self.fetch(&key).await {
            Ok(bytes) => bytes,
            // Retention was quicker.
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        match self.aside(move || format::decompress(&bytes)).await? {
            Ok(index) => Ok(Some(index)),
            Err(source @ FormatError::Version { .. }) => Err(StoreError::Format { key, source }),
            Err(error) => {
                tracing::warn!(segment = %key, %error, "A part of the index is torn; its snapshots are found by listing.");
                Ok(None)
            }
        }
    }

    /// Returns the ids of the snapshots that lie at `place`, those of `from` and later; in no order.
    pub(crate) async fn ids_from(
        &self,
        place: &Place,
        from: Option<Timestamp>,
    ) -> Result<Vec<SnapshotId>, StoreError> {
        // No name is shorter than its stamp, so the first of that time comes after it.
        let after = from.map(Timestamp::compact);
        let folder = place.snapshots_folder();
        let objects = self.objects_after(&folder, after.as_deref()).await?;
        Ok(objects
            .iter()
            .filter_map(|object| parse_file_name(&object.name))
            .collect())
    }

    /// Returns the snapshots that lie at `place` after `id` by name, with their sizes.
    pub(crate) async fn tail(
        &self,
        place: &Place,
        id: Option<SnapshotId>,
    ) -> Result<Vec<(SnapshotId, u64)>, StoreError> {
        let after = id.map(file_name);
        let folder = place.snapshots_folder();
        let mut tail = Vec::new();
        for object in self.objects_after(&folder, after.as_deref()).await? {
            let Some(id) = parse_file_name(&object.name) else {
                continue;
            };
            let size_bytes = match object.size_bytes {
                Some(size_bytes) => size_bytes,
                None => self.size(&key(place, id).to_string()).await?,
            };
            tail.push((id, size_bytes));
        }
        Ok(tail)
    }
}

pub(crate) fn key(place: &Place, id: SnapshotId) -> Key {
    Key {
        place: place.clone(),
        id,
    }
}

fn placed(entries: &[IndexEntry]) -> impl Iterator<Item = ((u64, Timestamp), Entry)> + '_ {
    entries
        .iter()
        .map(|entry| (in_order(entry.capture_id), Entry::from(entry)))
}

/// Of what is as old as what retention has deleted, only what lies there is there.
fn drop_retired(
    entries: &mut BTreeMap<(u64, Timestamp), Entry>,
    retired: Option<Retired>,
    found: &[SnapshotId],
) {
    let Some(retired) = retired else {
        return;
    };
    let found: BTreeSet<SnapshotId> = found.iter().copied().collect();
    entries.retain(|place, entry| *place > in_order(retired.up_to) || found.contains(&entry.id));
}
