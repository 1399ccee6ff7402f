//! Reading the snapshots that are worth it to say what is wrong, as `diagnose` chooses them.

use std::collections::{BTreeMap, BTreeSet};

use model::{Snapshot, Timestamp};
use store::{Entry, Key, Place, Since, Store, StoreError};

use super::sight::{self, Silent};
use crate::clocks;
use crate::root::{At, Chosen};

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
    let wanted = diagnose::newest_and_first(entries.len());
    let mut snapshots = BTreeMap::new();
    load(store, place, &entries, &wanted, &mut snapshots).await?;
    if let Some(newest) = snapshots.values().next_back() {
        let times: Vec<Timestamp> = entries.iter().map(Entry::at).collect();
        let around = diagnose::around_the_stand(&times, newest).collect();
        load(store, place, &entries, &around, &mut snapshots).await?;
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
