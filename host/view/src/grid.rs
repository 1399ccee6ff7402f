//! Digests of all nodes at a row of instants, the telling ones first: as many as are read in a short time. Who asks again
//! gets more.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use model::Timestamp;
use store::{At, Entry, Key};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::digest::Digest;
use crate::query::Query;
use crate::runs::{Node, Run};
use crate::shelf::{Digested, Shelf};

/// Instants of a row.
const COLUMNS: usize = 96;
/// Instants at which findings were added that are in a row as well: so many of the first, and of the newest.
const BEGINNINGS: usize = 8;
/// How long is read for one answer.
const PATIENCE: Duration = Duration::from_millis(250);
/// Snapshots that are read at a time.
const AT_A_TIME: usize = 8;

/// Digests by node and instant.
#[derive(Debug)]
pub(crate) struct Grid {
    /// By node, then by instant; absent where the node had no snapshot yet, and where it is not read yet.
    pub(crate) cells: Vec<Vec<Cell>>,
    /// The instants, ascending.
    pub(crate) columns: Vec<Timestamp>,
    /// How many snapshots are not read yet.
    pub(crate) missing: usize,
}

/// One node at one instant.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    /// It had no snapshot by then.
    Before,
    /// Its snapshot is not read yet.
    Unread,
    /// Its snapshot, in short, and when it was taken.
    Read(Timestamp, Digested),
}

impl Cell {
    /// Returns what was read, where that is so.
    pub(crate) fn digest(&self) -> Option<&Digest> {
        match self {
            Self::Read(_, Ok(digest)) => Some(digest),
            Self::Before | Self::Unread | Self::Read(_, Err(_)) => None,
        }
    }
}

/// The part of a run's time that a query asks for; all of it where it asks for none.
pub(crate) fn window(run: &Run, query: &Query) -> Option<(Timestamp, Timestamp)> {
    let (first, last) = run.span()?;
    let from = query.from.unwrap_or(first).clamp(first, last);
    let to = query.to.unwrap_or(last).clamp(first, last);
    Some((from.min(to), from.max(to)))
}

/// Reads a row of `nodes` within `window`.
pub(crate) async fn grid(
    shelf: &Arc<Shelf>,
    nodes: &[&Node],
    window: (Timestamp, Timestamp),
) -> Grid {
    let columns = columns(nodes, window);
    let mut wanted: Vec<Key> = Vec::new();
    let mut asked: HashSet<Key> = HashSet::new();
    let mut known: HashMap<Key, Digested> = HashMap::new();
    for column in telling_first(columns.len()) {
        for node in nodes {
            let Some(entry) = entry_at(node, columns[column]) else {
                continue;
            };
            let key = node.key(entry);
            match shelf.known_digest(&key) {
                Some(digest) => drop(known.insert(key, digest)),
                None => drop(asked.insert(key.clone()).then(|| wanted.push(key))),
            }
        }
    }
    let all = wanted.len();
    let read = read(shelf, wanted).await;
    let missing = all - read.len();
    known.extend(read);
    let cell = |node: &&Node, at: &Timestamp| {
        let Some(entry) = entry_at(node, *at) else {
            return Cell::Before;
        };
        match known.get(&node.key(entry)) {
            Some(digest) => Cell::Read(node.common(entry.at()), digest.clone()),
            None => Cell::Unread,
        }
    };
    Grid {
        cells: nodes
            .iter()
            .map(|node| columns.iter().map(|at| cell(node, at)).collect())
            .collect(),
        columns,
        missing,
    }
}

/// Reads digests in the order of `keys` while there is patience.
async fn read(shelf: &Arc<Shelf>, keys: Vec<Key>) -> Vec<(Key, Digested)> {
    let end = Instant::now() + PATIENCE;
    let mut keys = keys.into_iter();
    let mut reading = JoinSet::new();
    let mut read = Vec::new();
    loop {
        while reading.len() < AT_A_TIME && Instant::now() < end {
            let Some(key) = keys.next() else { break };
            let shelf = Arc::clone(shelf);
            reading.spawn(async move {
                let digest = shelf.digest(&key).await;
                (key, digest)
            });
        }
        // Those that are under way are kept by the shelf, also where this answer goes without them.
        match tokio::time::timeout_at(end, reading.join_next()).await {
            Ok(Some(Ok(one))) => read.push(one),
            Ok(Some(Err(_))) => {}
            Ok(None) => return read,
            Err(_) => {
                reading.detach_all();
                return read;
            }
        }
    }
}

/// The instants: of the node that has the most snapshots in the window, a number of them, evenly, both ends included, and those
/// at which findings were added, what was found while the task ran among them: that is told once.
fn columns(nodes: &[&Node], (from, to): (Timestamp, Timestamp)) -> Vec<Timestamp> {
    let within = |node: &Node| {
        let entries = node.entries.iter();
        let times = entries.map(|entry| (node.common(entry.at()), findings(entry)));
        let times = times.filter(|(at, _)| (from..=to).contains(at));
        times.collect::<Vec<(Timestamp, u64)>>()
    };
    let fullest = nodes.iter().map(|node| within(node));
    let Some(mut times) = fullest.max_by_key(Vec::len) else {
        return Vec::new();
    };
    times.sort_unstable();
    times.dedup_by_key(|(at, _)| *at);
    let last = times.len().saturating_sub(1);
    if last < COLUMNS {
        return times.into_iter().map(|(at, _)| at).collect();
    }
    let mut columns: Vec<Timestamp> = (0..COLUMNS)
        .map(|column| times[column * last / (COLUMNS - 1)].0)
        .collect();
    let begun = times.windows(2).filter(|pair| pair[0].1 < pair[1].1);
    let begun: Vec<Timestamp> = begun.map(|pair| pair[1].0).collect();
    columns.extend(begun.iter().take(BEGINNINGS));
    columns.extend(begun.iter().rev().take(BEGINNINGS));
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// How many findings a snapshot has, as an index says.
pub(crate) fn findings(entry: &Entry) -> u64 {
    entry.listed.map_or(0, |facts| facts.findings)
}

/// The places of a row of `count`, each once: the newest, the first, the middle, the quarters, and so on.
fn telling_first(count: usize) -> Vec<usize> {
    let mut order = Vec::with_capacity(count);
    let mut is_in = vec![false; count];
    let mut take = |place: usize| {
        if let Some(taken) = is_in.get_mut(place)
            && !std::mem::replace(taken, true)
        {
            order.push(place);
        }
    };
    let mut step = count;
    take(count.saturating_sub(1));
    while step > 0 {
        (0..count).step_by(step).for_each(&mut take);
        step /= 2;
    }
    order
}

fn entry_at(node: &Node, at: Timestamp) -> Option<&Entry> {
    node.entries.get(node.position(At::Time(at))?)
}

#[cfg(test)]
mod tests {
    use model::SnapshotId;
    use store::Facts;

    use super::*;

    #[test]
    fn an_instant_at_which_something_was_found_is_in_the_row_also_where_all_have_findings() {
        let time = |second: i64| Timestamp::from_microseconds(second * 1_000_000).unwrap();
        let entry = |second: i64| Entry {
            id: SnapshotId {
                stamp: time(second),
                sequence: u64::try_from(second).unwrap(),
            },
            listed: Some(Facts {
                findings: 1 + u64::from([501, 502, 7777].contains(&second)),
                process_count: 4,
                size_bytes: 1000,
                started_at: time(second),
                trigger: None,
            }),
        };
        let place = "a/attempt-0/diagnostics/node-b".parse().unwrap();
        let node = Node::new(place, (0..10_000).map(entry).collect(), None);
        let columns = columns(&[&node], (time(0), time(9_999)));
        assert_eq!(columns.len(), COLUMNS + 2);
        for second in [0, 501, 7777, 9_999] {
            assert!(columns.contains(&time(second)), "{second}");
        }
        assert!(!columns.contains(&time(502)));
    }

    #[test]
    fn the_ends_come_first_and_every_place_comes_once() {
        assert_eq!(telling_first(0), Vec::<usize>::new());
        assert_eq!(telling_first(1), [0]);
        let order = telling_first(96);
        assert_eq!(order[..3], [95, 0, 48]);
        let mut sorted = order;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..96).collect::<Vec<_>>());
    }
}
