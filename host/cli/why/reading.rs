//! Reading the snapshots that are worth it to say what is wrong, as `diagnose` chooses them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use diagnose::Silent;
use model::{Snapshot, Timestamp};
use store::{Clock, Entry, Key, Place, Since, Store, StoreError};

use super::sight;
use crate::clocks;
use crate::root::{At, Chosen};

/// What is seen of an attempt.
pub(crate) struct Sight {
    /// How the clock of a node stands to that of the first one, by its name; absent where that was not asked.
    pub(crate) clocks: BTreeMap<String, Clock>,
    /// The snapshots of each node, the oldest first.
    pub(crate) nodes: Vec<Vec<Snapshot>>,
    /// Nodes that are not among them, because they have stored nothing lately.
    pub(crate) silent: Vec<Silent>,
    /// Nodes of whose snapshots none can be read, or all were deleted meanwhile.
    pub(crate) unreadable: Vec<String>,
    /// Nodes that have stored no snapshot yet.
    pub(crate) without_snapshot: Vec<String>,
}

/// Of more other nodes than this, clocks are not compared each time: the newest snapshot of each node is of one instant for all that
/// we know, and its clock is asked for where something looks wrong.
const MANY: usize = 64;

/// Returns the snapshots of each node of the attempt up to one instant, whatever their clocks say: that of the snapshot that was
/// chosen, or the latest; of its node alone where `one` is asked for.
pub(crate) async fn read(
    store: &Store,
    chosen: Chosen,
    at: At,
    one: bool,
) -> anyhow::Result<Sight> {
    let key = chosen.key;
    let others = if one { Vec::new() } else { chosen.other_nodes };
    let are_many = others.len() > MANY;
    let together = match at {
        _ if others.is_empty() => None,
        At::Latest if are_many => None,
        At::Latest => Some(clocks::newest_together(store, &key.place, &others).await?),
        At::Id(_) | At::Time(_) => Some(clocks::together(store, &key, &others).await?),
    };
    let (keys, clocks) = together.map_or_else(Default::default, |it| (it.keys, it.clocks));
    let mut seen = Vec::new();
    let (mut without_snapshot, mut unreadable) = (Vec::new(), Vec::new());
    let names = std::iter::once(&key.place.node).chain(&others);
    for (position, name) in names.enumerate() {
        let place = Place {
            node: name.clone(),
            ..key.place.clone()
        };
        let until = match (keys.get(position), position) {
            (Some(key), _) => key.clone(),
            (None, 0) => Some(key.clone()),
            (None, _) => None,
        };
        let is_known_empty = until.is_none() && !keys.is_empty();
        let snapshots = if is_known_empty {
            None
        } else {
            of_node(store, &place, until.as_ref()).await?
        };
        match snapshots {
            Some(snapshots) if snapshots.is_empty() => unreadable.push(name.clone()),
            Some(snapshots) => seen.push((snapshots, clocks.get(position).copied())),
            None => without_snapshot.push(name.clone()),
        }
    }
    let (mut nodes, clocks): (Vec<_>, Vec<_>) = seen.into_iter().unzip();
    let mut clocks: Vec<Clock> = clocks.into_iter().flatten().collect();
    if clocks.is_empty() && sight::is_any_silent(&nodes) {
        clocks = sight::clocks(store, &key.place, &nodes).await?;
    }
    let newest = nodes.iter().filter_map(|snapshots| snapshots.last());
    let names = newest.map(|it| it.task.node.clone());
    Ok(Sight {
        clocks: names.zip(clocks.iter().copied()).collect(),
        silent: sight::take_the_silent(&mut nodes, &clocks),
        nodes,
        unreadable,
        without_snapshot,
    })
}

impl Sight {
    /// Returns until when what came counts of a node with this newest snapshot, by its own clock; all counts of the latest.
    pub(crate) fn until(&self, at: At, newest: &Snapshot) -> Option<Timestamp> {
        let seen = newest.capture.completed_at;
        match at {
            At::Latest => None,
            At::Id(_) => Some(seen),
            At::Time(time) => {
                let clock = self.clocks.get(&newest.task.node);
                let ahead = clock.map_or(0, |clock| clock.ahead);
                let ahead_by = Duration::from_micros(ahead.unsigned_abs());
                let here = if ahead < 0 {
                    time.before(ahead_by)
                } else {
                    time.after(ahead_by)
                };
                Some(seen.max(here))
            }
        }
    }
}

/// Returns the snapshots of a node that are worth it, up to one of them or to the newest; nothing where it has none yet.
async fn of_node(
    store: &Store,
    place: &Place,
    until: Option<&Key>,
) -> anyhow::Result<Option<Vec<Snapshot>>> {
    let mut history = match store.history(place, Since::Recent).await {
        Err(StoreError::NotFound { .. }) => return Ok(None),
        history => history?,
    };
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
    Ok(Some(snapshots.into_values().collect()))
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
