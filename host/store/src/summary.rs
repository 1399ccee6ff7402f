//! What a store holds of a node, by two requests: its index, and a listing of what came after it.

use model::{SnapshotId, Timestamp};

use crate::history::key;
use crate::index::{Index, Retired, in_order};
use crate::together::Together;
use crate::{Place, Store, StoreError};

/// What a store holds of one node in one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSummary {
    /// When the first snapshot was taken.
    pub first_at: Option<Timestamp>,
    /// When the newest was taken.
    pub last_at: Option<Timestamp>,
    /// The newest, by sequence number; absent where there is none.
    pub newest: Option<SnapshotId>,
    /// The node.
    pub place: Place,
    /// How many processes the newest has.
    pub processes: Option<u64>,
    /// What retention has deleted.
    pub retired: Option<Retired>,
    /// The size of all objects of snapshots, bytes.
    pub size_bytes: u64,
    /// How many snapshots.
    pub snapshots: u64,
}

impl Store {
    /// Returns what there is at `place`: two requests, and one more where the newest snapshot is in no index yet. A snapshot
    /// that the index lacks is found where its name comes after that of the newest in the index.
    pub async fn summary(&self, place: &Place) -> Result<NodeSummary, StoreError> {
        let Some(index) = self.head(place).await? else {
            return self.summary_without_index(place).await;
        };
        // The newest by sequence number: where the clock was set back, later snapshots have earlier names.
        let newest = index.snapshots.last().map(|entry| entry.capture_id);
        let mut tail = self.tail(place, newest).await?;
        let known = index.ids();
        tail.retain(|(id, _)| !known.contains(id) && index.is_beyond_sealed(*id));
        self.summed(place, &index, &tail).await
    }

    /// Returns what there is at each of `places`, in their order, several at a time. `progress` is called with how many are
    /// done.
    pub async fn summaries(
        &self,
        places: Vec<Place>,
        mut progress: impl FnMut(usize),
    ) -> Vec<Result<NodeSummary, StoreError>> {
        let mut summing = Together::default();
        let mut summaries: Vec<Option<_>> = places.iter().map(|_| None).collect();
        let mut done = 0;
        let mut keep = |(position, summary)| {
            summaries[position] = Some(summary);
            done += 1;
            progress(done);
        };
        for (position, place) in places.into_iter().enumerate() {
            let store = self.clone();
            let work = async move { (position, store.summary(&place).await) };
            if let Some(ended) = summing.add(work).await {
                keep(ended);
            }
        }
        while let Some(ended) = summing.next().await {
            keep(ended);
        }
        summaries.into_iter().flatten().collect()
    }

    async fn summary_without_index(&self, place: &Place) -> Result<NodeSummary, StoreError> {
        let names = self.segments(place).await?;
        let segments = self.open_segments(place, names).await?;
        let mut index: Option<Index> = None;
        for segment in segments {
            let index = index.get_or_insert_with(|| segment.without_entries());
            index.merge(segment);
        }
        let known = index.as_ref().map(Index::ids).unwrap_or_default();
        let mut tail = self.tail(place, None).await?;
        let there = tail.iter().map(|(id, _)| *id).collect();
        tail.retain(|(id, _)| !known.contains(id));
        if let Some(index) = &mut index {
            index.forget(&(&known - &there));
            return self.summed(place, index, &tail).await;
        }
        let mut summary = NodeSummary::nothing(place);
        self.add_tail(&mut summary, &tail).await?;
        Ok(summary)
    }

    async fn summed(
        &self,
        place: &Place,
        index: &Index,
        tail: &[(SnapshotId, u64)],
    ) -> Result<NodeSummary, StoreError> {
        let (first, last) = (index.snapshots.first(), index.snapshots.last());
        let sealed = index.sealed;
        let first_at = sealed.map(|sealed| sealed.first_at);
        let size_bytes: u64 = index.snapshots.iter().map(|entry| entry.size_bytes).sum();
        let mut summary = NodeSummary {
            first_at: first_at.or(first.map(|entry| entry.started_at)),
            last_at: last.map(|entry| entry.started_at),
            newest: last.map(|entry| entry.capture_id),
            processes: last.map(|entry| entry.process_count),
            retired: index.retired,
            size_bytes: size_bytes + sealed.map_or(0, |sealed| sealed.size_bytes),
            snapshots: index.snapshots.len() as u64 + sealed.map_or(0, |sealed| sealed.snapshots),
            ..NodeSummary::nothing(place)
        };
        self.add_tail(&mut summary, tail).await?;
        Ok(summary)
    }

    async fn add_tail(
        &self,
        summary: &mut NodeSummary,
        tail: &[(SnapshotId, u64)],
    ) -> Result<(), StoreError> {
        summary.snapshots += tail.len() as u64;
        summary.size_bytes += tail.iter().map(|(_, size_bytes)| size_bytes).sum::<u64>();
        let ids = || tail.iter().map(|(id, _)| *id);
        let first = ids().min_by_key(|id| in_order(*id));
        summary.first_at = summary.first_at.or(first.map(|id| id.stamp));
        let Some(last) = ids().max_by_key(|id| in_order(*id)) else {
            return Ok(());
        };
        if summary
            .newest
            .is_some_and(|newest| in_order(newest) > in_order(last))
        {
            return Ok(());
        }
        summary.newest = Some(last);
        summary.last_at = Some(last.stamp);
        // One that cannot be read is there all the same.
        let opened = self.load(&key(&summary.place, last)).await.ok();
        summary.processes = opened.map(|snapshot| snapshot.processes.len() as u64);
        Ok(())
    }
}

impl NodeSummary {
    fn nothing(place: &Place) -> Self {
        Self {
            first_at: None,
            last_at: None,
            newest: None,
            place: place.clone(),
            processes: None,
            retired: None,
            size_bytes: 0,
            snapshots: 0,
        }
    }
}
