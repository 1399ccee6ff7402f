//! The snapshots of all nodes at one instant, and those of a span of time.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use model::{Snapshot, Timestamp};
use store::{Entry, Key, Since, Store, StoreError};

use crate::clocks;
use crate::root::{self, At, Source};
use crate::ui::{self, Progress};

/// Instants of a period that are looked at; of more, so many that are evenly spread.
const MOST_LOOKS: usize = 240;

/// From where on a period goes, up to the snapshot that was chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    /// So many snapshots.
    Last(usize),
    /// This snapshot, or the first that is not earlier than this time.
    Since(At),
}

/// Returns the snapshot that `at` names, and that of each other node at the same instant, unless `one` node is asked for.
pub(crate) async fn at(
    store: &Store,
    source: &Source<'_>,
    at: At,
    one: bool,
) -> anyhow::Result<Vec<Snapshot>> {
    let chosen = source.find(store, at).await?;
    let mut snapshots = vec![store.load(&chosen.key).await?];
    if !one {
        let others = &chosen.other_nodes;
        for key in clocks::others_at(store, &chosen.key, others).await? {
            snapshots.push(store.load(&key).await?);
        }
    }
    Ok(snapshots)
}

/// Calls `each` with every snapshot of the period up to the one that `at` names and with when it was taken by the clock of its
/// node, which is the first; of other nodes with those of the same instants, unless `one` node is asked for. One that cannot
/// be read is said and left out.
pub(crate) async fn over(
    store: &Store,
    source: &Source<'_>,
    (from, at): (From, At),
    one: bool,
    mut each: impl FnMut(&Snapshot, Timestamp),
) -> anyhow::Result<()> {
    let chosen = source.find(store, at).await?;
    let entries = entries(store, &chosen.key, from).await?;
    let entries = spread(&entries);
    let others = if one { Vec::new() } else { chosen.other_nodes };
    let keys = keys(store, &chosen.key, &entries, &others).await?;
    let progress = Progress::new("snapshots", keys.len());
    for (done, (instant, key)) in keys.iter().enumerate() {
        progress.show(done);
        match store.load(key).await {
            Ok(snapshot) => each(&snapshot, *instant),
            Err(error @ (StoreError::NotFound { .. } | StoreError::Format { .. })) => {
                tracing::warn!(%error, "A snapshot cannot be read; the others are merged.");
            }
            Err(error) => {
                progress.end();
                return Err(error.into());
            }
        }
    }
    progress.end();
    Ok(())
}

/// Returns the snapshots of the period on the node of `key`, which is its last.
async fn entries(store: &Store, key: &Key, from: From) -> anyhow::Result<Vec<Entry>> {
    let first = match from {
        From::Since(At::Id(id)) => Since::Time(id.stamp.before(root::AROUND)),
        From::Since(At::Time(time)) => Since::Time(time.before(root::AROUND)),
        From::Last(_) | From::Since(At::Latest) => Since::Recent,
    };
    for since in [first, Since::Start] {
        let mut entries = store.history(&key.place, since).await?.entries;
        let Some(end) = entries.iter().position(|entry| entry.id == key.id) else {
            continue;
        };
        entries.truncate(end + 1);
        let begin = match from {
            From::Last(count) => match entries.len().checked_sub(count) {
                None if since == Since::Start => Some(0),
                begin => begin,
            },
            From::Since(At::Latest) => Some(end),
            From::Since(At::Id(id)) => entries.iter().position(|entry| entry.id == id),
            From::Since(At::Time(time)) => entries.iter().position(|entry| entry.at() >= time),
        };
        if let Some(begin) = begin {
            return Ok(entries.split_off(begin));
        }
    }
    match from {
        From::Since(since) => bail!(
            "{} has no snapshot from {since} up to {}; `taskscope list --snapshots` shows which there are",
            key.place,
            key.id
        ),
        From::Last(_) => Err(anyhow::anyhow!("snapshot {} is gone", key.id)),
    }
}

/// Of many, some that are evenly spread, the first and the last among them.
fn spread(entries: &[Entry]) -> Vec<Entry> {
    let all = entries.len();
    if all <= MOST_LOOKS {
        return entries.to_vec();
    }
    ui::say(&format!(
        "of the {all} snapshots of that time {MOST_LOOKS} are read, evenly spread"
    ));
    (0..MOST_LOOKS)
        .map(|look| entries[look * (all - 1) / (MOST_LOOKS - 1)])
        .collect()
}

/// Returns the snapshots of all nodes at the instants of `entries`, which are of the node of `key`, each once.
async fn keys(
    store: &Store,
    key: &Key,
    entries: &[Entry],
    others: &[String],
) -> anyhow::Result<Vec<(Timestamp, Key)>> {
    let own = entries.iter().map(|entry| {
        let place = key.place.clone();
        (
            entry.at(),
            Key {
                place,
                id: entry.id,
            },
        )
    });
    let mut keys: Vec<(Timestamp, Key)> = own.collect();
    if others.is_empty() {
        return Ok(keys);
    }
    let first = entries.first().context("the period has no snapshot")?.at();
    let timeline = clocks::since(store, key, others, first).await?;
    let mut known = BTreeSet::new();
    for entry in entries {
        let of_nodes = timeline.at(entry.at()).into_iter().enumerate().skip(1);
        for (node, other) in of_nodes.filter_map(|(node, other)| Some((node, other?))) {
            if known.insert((node, other.id)) {
                let clock = timeline.nodes[node].clock;
                let common = Timestamp::from_microseconds(clock.common(other.id.stamp));
                keys.push((common.unwrap_or(other.id.stamp), other));
            }
        }
    }
    Ok(keys)
}
