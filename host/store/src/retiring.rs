//! Retention carried out: objects are deleted first, then the index says so. What is deleted twice is gone once.

use model::SnapshotId;

use crate::beside::Beside;
use crate::history::key;
use crate::index::{Index, IndexEntry, Retired, in_order};
use crate::retention::{Held, Retention, goes};
use crate::segment::SegmentName;
use crate::together::Together;
use crate::{Place, Store, StoreError};
use model::Timestamp;

/// Snapshots that are looked at before an index is written; the others have their turn at the next write.
const LOOKED_AT: usize = 512;

/// Where the oldest snapshots are listed that retention has not looked at.
enum Oldest {
    Segment(SegmentName, Vec<IndexEntry>),
    Index(Vec<IndexEntry>),
}

/// Deletes what `retention` says from `place`, and takes note of it in `index`.
pub(crate) async fn retire(
    store: &Store,
    place: &Place,
    index: &mut Index,
    beside: &mut Beside,
    retention: Retention,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut looked_at = 0;
    if !retention.is_off() {
        beside.look(store, place).await?;
    }
    while !retention.is_off() && looked_at < LOOKED_AT {
        let oldest = oldest(store, place, index).await?;
        let (Oldest::Segment(_, entries) | Oldest::Index(entries)) = &oldest;
        let surplus = retention.surplus(entries, beside.cited(), held(index, beside), now);
        let Some(last) = entries[..surplus].last().map(|entry| entry.capture_id) else {
            break;
        };
        let is_whole = surplus == entries.len();
        let gone: Vec<&IndexEntry> = entries[..surplus]
            .iter()
            .filter(|it| goes(it, beside.cited()))
            .collect();
        let ids: Vec<SnapshotId> = gone.iter().map(|entry| entry.capture_id).collect();
        let size_bytes = gone.iter().map(|entry| entry.size_bytes).sum();
        delete(store, ids.iter().map(|id| key(place, *id).to_string())).await?;
        index.retire(&oldest, &ids, size_bytes, last);
        if let (Oldest::Segment(name, _), true) = (&oldest, is_whole) {
            drop_segment(store, place, index, beside, name).await?;
        }
        looked_at += surplus;
    }
    match &mut index.retired {
        Some(retired) if !retention.is_off() => {
            let old = beside.samples_before(retired.up_to.stamp);
            delete(store, old.iter().map(ToString::to_string)).await?;
            retired.samples += old.len() as u64;
            beside.forget(&old);
        }
        _ => {}
    }
    Ok(())
}

fn held(index: &Index, beside: &Beside) -> Held {
    let size_bytes: u64 = index.snapshots.iter().map(|entry| entry.size_bytes).sum();
    let sealed = index.sealed;
    Held {
        size_bytes: size_bytes + sealed.map_or(0, |sealed| sealed.size_bytes) + beside.size_bytes(),
        snapshots: index.snapshots.len() as u64 + sealed.map_or(0, |sealed| sealed.snapshots),
    }
}

async fn oldest(store: &Store, place: &Place, index: &Index) -> Result<Oldest, StoreError> {
    let is_new = |id: SnapshotId| {
        let passed = index.retired.map(|retired| in_order(retired.up_to));
        passed.is_none_or(|passed| in_order(id) > passed)
    };
    if index.sealed.is_some_and(|sealed| is_new(sealed.last)) {
        let names = store.segments(place).await?;
        for name in names.into_iter().filter(|name| is_new(name.last)) {
            let segments = store.open_segments(place, vec![name.clone()]).await?;
            let entries = segments.into_iter().flat_map(|segment| segment.snapshots);
            let entries: Vec<IndexEntry> = entries.filter(|it| is_new(it.capture_id)).collect();
            if !entries.is_empty() {
                return Ok(Oldest::Segment(name, entries));
            }
        }
    }
    // Never the newest.
    let all = &index.snapshots[..index.snapshots.len().saturating_sub(1)];
    let entries = all.iter().filter(|it| is_new(it.capture_id));
    Ok(Oldest::Index(entries.cloned().collect()))
}

async fn delete(store: &Store, keys: impl Iterator<Item = String>) -> Result<(), StoreError> {
    let mut deleting = Together::default();
    let mut deleted = Vec::new();
    for key in keys {
        let store = store.clone();
        deleted.extend(deleting.add(async move { store.delete(&key).await }).await);
    }
    deleted.extend(deleting.rest().await);
    deleted.into_iter().collect()
}

/// Deletes a segment of which no snapshot is left.
async fn drop_segment(
    store: &Store,
    place: &Place,
    index: &mut Index,
    beside: &Beside,
    name: &SegmentName,
) -> Result<(), StoreError> {
    let segments = store.open_segments(place, vec![name.clone()]).await?;
    let mut entries = segments.iter().flat_map(|segment| &segment.snapshots);
    if entries.all(|entry| goes(entry, beside.cited())) {
        store.delete(&name.key(place)).await?;
        if let Some(sealed) = &mut index.sealed {
            sealed.segments = sealed.segments.saturating_sub(1);
        }
    }
    Ok(())
}

impl Index {
    fn retire(&mut self, oldest: &Oldest, ids: &[SnapshotId], size_bytes: u64, up_to: SnapshotId) {
        let count = ids.len() as u64;
        let before = self.retired;
        self.retired = Some(Retired {
            samples: before.map_or(0, |retired| retired.samples),
            size_bytes: before.map_or(0, |retired| retired.size_bytes) + size_bytes,
            snapshots: before.map_or(0, |retired| retired.snapshots) + count,
            up_to,
        });
        match (oldest, &mut self.sealed) {
            (Oldest::Segment(..), Some(sealed)) => {
                sealed.snapshots = sealed.snapshots.saturating_sub(count);
                sealed.size_bytes = sealed.size_bytes.saturating_sub(size_bytes);
            }
            _ => self.forget(&ids.iter().copied().collect()),
        }
    }
}
