//! The obituaries that `taskscope why` reads beside the snapshots.

use diagnose::End;
use model::{ObituarySegment, Snapshot, Timestamp};
use store::{Place, RecordKind, Store, StoreError};

/// Records that are read of one node, the first and the newest: the causes, and how it ended.
const MOST_READ: usize = 256;

/// The records of obituaries of one node, by name.
type Records = Vec<(String, ObituarySegment)>;

/// Returns the obituaries of each node, as far as they can be read.
pub(crate) async fn read_ends(
    store: &Store,
    nodes: &[Vec<Snapshot>],
) -> anyhow::Result<Vec<Records>> {
    let mut all = Vec::new();
    for snapshots in nodes {
        let place = snapshots.last().map(|snapshot| Place::of(&snapshot.task));
        all.push(match place {
            Some(place) => of_node(store, &place).await?,
            None => Vec::new(),
        });
    }
    Ok(all)
}

async fn of_node(store: &Store, place: &Place) -> Result<Records, StoreError> {
    let mut keys = store.records(place, RecordKind::Obituaries, None).await?;
    if keys.len() > MOST_READ {
        keys.drain(MOST_READ / 2..keys.len() - MOST_READ / 2);
    }
    let mut records = Vec::new();
    let folder = format!("{place}/");
    for key in keys {
        let path = key.to_string();
        match store.record(&key).await {
            Ok(segment) => {
                let name = path.strip_prefix(&folder).unwrap_or(&path).to_owned();
                records.push((name, segment));
            }
            Err(error @ (StoreError::NotFound { .. } | StoreError::Format { .. })) => {
                tracing::warn!(%error, "A record of ends cannot be read; the others are judged.");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(records)
}

/// Returns the ends of a node in their order, those until an instant where one is given.
pub(crate) fn ends(records: Option<&Records>, until: Option<Timestamp>) -> Vec<End<'_>> {
    let records = records.into_iter().flatten();
    End::in_order(
        records.map(|(name, segment)| (name.as_str(), segment)),
        until,
    )
}
