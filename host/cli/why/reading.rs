//! Which snapshots are worth reading to say what is wrong: the newest, those around the instant when things came to a
//! stand, and the first.

use std::collections::{BTreeMap, BTreeSet};

use model::{Snapshot, Timestamp};
use store::{Entry, Key, Place, Since, Store, StoreError};

use super::sight::{self, Silent};
use crate::clocks;
use crate::root::{At, Chosen};

/// How many of the newest snapshots are read.
const NEWEST: usize = 12;
/// How many before the instant when things came to a stand, and how many from there on.
const AROUND: usize = 4;
/// How many of the first.
const FIRST: usize = 2;

/// What is seen of an attempt.
pub(crate) struct Sight {
    /// The snapshots of each node, the oldest first.
    pub(crate) nodes: Vec<Vec<Snapshot>>,
    /// Nodes that are not among them, because they have stored nothing lately.
    pub(crate) silent: Vec<Silent>,
}

/// Returns the snapshots of each node of the attempt, up to the one that was chosen, of other nodes up to the same instant,
/// whatever their clocks say; of its node alone where `one` is asked for. The latest is that of each node.
pub(crate) async fn read(
    store: &Store,
    chosen: Chosen,
    at: At,
    one: bool,
) -> anyhow::Result<Sight> {
    let place = chosen.key.place.clone();
    let mut nodes = vec![of_node(store, &place, Some(&chosen.key)).await?];
    let others = if one { Vec::new() } else { chosen.other_nodes };
    if at == At::Latest {
        for node in others {
            let place = Place {
                node,
                ..place.clone()
            };
            nodes.push(of_node(store, &place, None).await?);
        }
    } else {
        for key in clocks::at_the_same_instant(store, &chosen.key, &others).await? {
            nodes.push(of_node(store, &key.place, Some(&key)).await?);
        }
    }
    nodes.retain(|snapshots| !snapshots.is_empty());
    let silent = sight::without_the_silent(store, &place, &mut nodes).await?;
    Ok(Sight { nodes, silent })
}

async fn of_node(
    store: &Store,
    place: &Place,
    until: Option<&Key>,
) -> anyhow::Result<Vec<Snapshot>> {
    let mut history = store.history(place, Since::Recent).await?;
    let is_there =
        |entries: &[Entry]| until.is_none_or(|key| entries.iter().any(|entry| entry.id == key.id));
    if !is_there(&history.entries) {
        history = store.history(place, Since::Start).await?;
    }
    let mut entries = history.entries;
    if let Some(key) = until {
        let end = entries.iter().position(|entry| entry.id == key.id);
        entries.truncate(end.map_or(entries.len(), |end| end + 1));
    }
    let newest = entries.len().saturating_sub(NEWEST);
    let mut wanted: BTreeSet<usize> = (newest..entries.len()).collect();
    wanted.extend(0..FIRST.min(entries.len()));
    let mut snapshots = BTreeMap::new();
    load(store, place, &entries, &wanted, &mut snapshots).await?;
    if let Some(onset) = snapshots.values().next_back().and_then(onset) {
        let at = entries.partition_point(|entry| entry.at() < onset);
        let around = at.saturating_sub(AROUND)..(at + AROUND).min(entries.len());
        load(store, place, &entries, &around.collect(), &mut snapshots).await?;
    }
    Ok(snapshots.into_values().collect())
}

/// Loads those of `wanted` that are not there yet. What retention has deleted meanwhile is left out.
async fn load(
    store: &Store,
    place: &Place,
    entries: &[Entry],
    wanted: &BTreeSet<usize>,
    snapshots: &mut BTreeMap<usize, Snapshot>,
) -> anyhow::Result<()> {
    for &index in wanted {
        if snapshots.contains_key(&index) {
            continue;
        }
        let key = Key {
            place: place.clone(),
            id: entries[index].id,
        };
        match store.load(&key).await {
            Ok(snapshot) => {
                snapshots.insert(index, snapshot);
            }
            Err(error @ (StoreError::NotFound { .. } | StoreError::Format { .. })) => {
                tracing::warn!(%error, "A snapshot cannot be read; the others are judged.");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// When the last main thread that stands still came to a stand: since then nothing has changed, and just before it lies why.
fn onset(snapshot: &Snapshot) -> Option<Timestamp> {
    let threads = snapshot.processes.iter().flat_map(|process| {
        let main = process.pid;
        let threads = process.proc.threads.iter();
        threads.filter(move |thread| thread.tid == main)
    });
    threads.filter_map(|thread| thread.unchanged_since).max()
}
