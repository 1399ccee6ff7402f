//! Which runs a store holds, and which snapshots the nodes of one have: asked again after a short while, so that a
//! thousand pages that are looked at cost the store no more than one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::{TaskPath, Timestamp};
use store::{At, Entry, Place, Since, Store, StoreError, TaskEntry};
use tokio::task::JoinSet;

use crate::aged::{Aged, AsOf};
use crate::answer::Trouble;
use crate::clocks::Clocks;

/// How long what a directory held is taken for true; a service, which is slower and may cost, is asked more seldom.
const FRESH: Duration = Duration::from_secs(1);
const FRESH_SERVICE: Duration = Duration::from_secs(5);
/// Runs whose histories are remembered.
const REMEMBERED: usize = 8;

/// One attempt at a task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunId {
    pub(crate) task: TaskPath,
    pub(crate) attempt: u32,
}

/// A run as the store held it a moment ago.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) id: RunId,
    /// In the order of their names, `node-2` before `node-10`; at least one.
    pub(crate) nodes: Vec<Node>,
}

/// One node of a run. Its times are by its own clock but where they are said to be common: by that of the first node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// How far its clock is taken to be ahead of that of the first node, microseconds.
    pub(crate) ahead: i64,
    /// In the order of a history, from the first on.
    pub(crate) entries: Vec<Entry>,
    /// Of each entry, the earliest time from it on: ascending also where the clock was set back.
    earliest_from: Vec<Timestamp>,
    /// Whether what it saw together with another node tells how its clock stands.
    pub(crate) is_clock_compared: bool,
    pub(crate) place: Place,
    /// Why its snapshots are not known, or not all of them.
    pub(crate) trouble: Option<String>,
}

/// What was asked last.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    clocks: Arc<Clocks>,
    list: Arc<Aged<Arc<Vec<TaskEntry>>>>,
    known: Mutex<HashMap<RunId, Arc<Aged<Arc<Run>>>>>,
}

impl Node {
    /// Returns the node at `place` with its entries in their order, and why these are not known, or not all of them.
    pub(crate) fn new(place: Place, entries: Vec<Entry>, trouble: Option<String>) -> Self {
        Self {
            ahead: 0,
            earliest_from: earliest_from(&entries),
            entries,
            is_clock_compared: false,
            place,
            trouble,
        }
    }

    /// Returns a time of its clock as the common one.
    pub(crate) fn common(&self, at: Timestamp) -> Timestamp {
        moved(at, self.ahead.saturating_neg())
    }

    /// Returns a common time as one of its clock.
    pub(crate) fn own(&self, at: Timestamp) -> Timestamp {
        moved(at, self.ahead)
    }

    /// Returns the place of the snapshot that is meant; a time is a common one.
    pub(crate) fn position(&self, at: At) -> Option<usize> {
        let At::Time(time) = at else {
            return at.position(&self.entries);
        };
        let time = self.own(time);
        let times = &self.earliest_from;
        times.partition_point(|it| *it <= time).checked_sub(1)
    }
}

fn earliest_from(entries: &[Entry]) -> Vec<Timestamp> {
    let mut times: Vec<Timestamp> = entries.iter().map(Entry::at).collect();
    for place in (1..times.len()).rev() {
        times[place - 1] = times[place - 1].min(times[place]);
    }
    times
}

fn moved(at: Timestamp, by: i64) -> Timestamp {
    let moved = at.as_microseconds().saturating_add(by);
    Timestamp::from_microseconds(moved).unwrap_or(at)
}

impl Run {
    /// Returns when the first snapshot of any node was taken, and when the newest; common times.
    pub(crate) fn span(&self) -> Option<(Timestamp, Timestamp)> {
        let times = || {
            let ends = self.nodes.iter();
            ends.flat_map(|node| {
                let ends = node.entries.first().into_iter().chain(node.entries.last());
                ends.map(|entry| node.common(entry.at()))
            })
        };
        times().min().zip(times().max())
    }

    /// Returns how many snapshots all nodes have.
    pub(crate) fn snapshots(&self) -> usize {
        self.nodes.iter().map(|node| node.entries.len()).sum()
    }

    /// Returns the node of this name.
    pub(crate) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.place.node == name)
    }
}

impl Runs {
    /// Returns every task with its attempts, the newest first.
    pub(crate) async fn list(
        &self,
        store: &Store,
        as_of: AsOf,
    ) -> Result<Arc<Vec<TaskEntry>>, Trouble> {
        if let Some(known) = as_of.known(&self.list) {
            return Ok(known);
        }
        let asked = store.clone();
        let look = async move |_| match asked.tasks().await {
            Ok(list) => Ok(Arc::new(list)),
            Err(StoreError::NoStore { .. }) => Ok(Arc::default()),
            Err(error) => Err(unavailable(&error)),
        };
        self.list.get(freshness(store), look).await
    }

    /// Returns the run `id`.
    pub(crate) async fn run(
        &self,
        store: &Store,
        id: &RunId,
        as_of: AsOf,
    ) -> Result<Arc<Run>, Trouble> {
        let (asked, id, clocks) = (store.clone(), id.clone(), Arc::clone(&self.clocks));
        let aged = self.aged(&id);
        if let Some(known) = as_of.known(&aged) {
            return Ok(known);
        }
        let look = async move |before: Option<Arc<Run>>| {
            let mut run = read(&asked, &id, before.as_deref()).await?;
            clocks.tell(&asked, &mut run);
            Ok(Arc::new(run))
        };
        aged.get(freshness(store), look).await
    }

    fn aged(&self, id: &RunId) -> Arc<Aged<Arc<Run>>> {
        let mut runs = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() >= REMEMBERED && !runs.contains_key(id) {
            runs.clear();
        }
        Arc::clone(runs.entry(id.clone()).or_default())
    }
}

fn freshness(store: &Store) -> Duration {
    if store.location().contains("://") {
        FRESH_SERVICE
    } else {
        FRESH
    }
}

/// Reads which snapshots the nodes of a run have; of those that were known `before`, only what is new.
async fn read(store: &Store, id: &RunId, before: Option<&Run>) -> Result<Run, Trouble> {
    let places = store.places(&id.task, id.attempt).await;
    let places = places.map_err(|error| unavailable(&error))?;
    if places.is_empty() {
        return Err(Trouble::missing(
            format!("there is no attempt {} of `{}`", id.attempt, id.task),
            "`taskscope list` shows what the store holds",
        ));
    }
    let mut reading = JoinSet::new();
    for place in places {
        let known = before.and_then(|run| run.node(&place.node)).cloned();
        reading.spawn(node(store.clone(), place, known));
    }
    // A node that cannot be read at all has its trouble; one whose reading failed in us is left out.
    let mut nodes: Vec<Node> = Vec::new();
    while let Some(read) = reading.join_next().await {
        nodes.extend(read);
    }
    nodes.sort_by(|one, other| one.place.cmp(&other.place));
    Ok(Run {
        id: id.clone(),
        nodes,
    })
}

async fn node(store: Store, place: Place, known: Option<Node>) -> Node {
    let read = match known.filter(|node| node.trouble.is_none()) {
        Some(node) => newer(&store, &place, node.entries).await,
        None => all(&store, &place).await,
    };
    let (entries, trouble) = match read {
        Ok(entries) => (entries, None),
        Err(StoreError::NotFound { .. }) => (Vec::new(), None),
        Err(error) => (Vec::new(), Some(words(&error))),
    };
    Node::new(place, entries, trouble)
}

async fn all(store: &Store, place: &Place) -> Result<Vec<Entry>, StoreError> {
    Ok(store.history(place, Since::Start).await?.entries)
}

/// Adds what came since to `known`. What was deleted from the beginning is noticed by the count.
async fn newer(store: &Store, place: &Place, known: Vec<Entry>) -> Result<Vec<Entry>, StoreError> {
    let recent = store.history(place, Since::Recent).await?;
    let order = |entry: &Entry| (entry.id.sequence, entry.id.stamp);
    let Some(first) = recent.entries.first().map(order) else {
        return all(store, place).await;
    };
    let mut entries = known;
    entries.truncate(entries.partition_point(|entry| order(entry) < first));
    if entries.len() as u64 != recent.older {
        return all(store, place).await;
    }
    entries.extend(recent.entries);
    Ok(entries)
}

/// Returns what a store said, with all its causes.
pub(crate) fn words(error: &StoreError) -> String {
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        words = format!("{words}: {inner}");
        cause = inner.source();
    }
    words
}

fn unavailable(error: &StoreError) -> Trouble {
    Trouble {
        hint: error.remedy().map(str::to_owned),
        ..Trouble::unavailable(words(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_microseconds(second * 1_000_000).unwrap()
    }

    #[test]
    fn an_instant_is_found_as_by_looking_at_each_also_where_the_clock_was_set_back() {
        for seconds in [vec![], vec![3], vec![1, 2, 3, 4], vec![5, 6, 2, 3, 7, 7, 1]] {
            let entry = |(sequence, second): (usize, &i64)| Entry {
                id: model::SnapshotId {
                    stamp: time(*second),
                    sequence: sequence as u64,
                },
                listed: None,
            };
            let entries: Vec<Entry> = seconds.iter().enumerate().map(entry).collect();
            let place = "a/attempt-0/diagnostics/node-b".parse().unwrap();
            let node = Node {
                ahead: 10_000_000,
                ..Node::new(place, entries, None)
            };
            for second in 0..9 {
                let expected = At::Time(time(second)).position(&node.entries);
                let common = At::Time(node.common(time(second)));
                assert_eq!(node.position(common), expected, "{seconds:?} at {second}");
            }
        }
    }
}
