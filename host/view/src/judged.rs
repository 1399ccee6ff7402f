//! What is wrong at an instant, as `taskscope why` says it; each answer is kept, because it takes many snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diagnose::{History, Judgement, Newest, Silent, Twin};
use futures_util::{StreamExt as _, stream};
use model::{Snapshot, SnapshotId, Timestamp};
use store::{Entry, Key, Place, RecordKey};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::ends::{Ends, Records};
use crate::moment::{Moment, NodeAt, read};
use crate::runs::{Node, Run};
use crate::shelf::{Held, Shelf};
use crate::view::View;
use crate::work::Work;

/// Answers that are kept.
const ANSWERS: u64 = 64;
/// Nodes that are read at a time.
const NODES: usize = 16;
/// Snapshots and records that are named where several cannot be read.
const UNREAD: usize = 3;
/// How long an answer is taken to be so before it is looked whether that still holds: an end may be told of after it.
const FRESH: Duration = Duration::from_secs(5);

/// The snapshots of one node that are judged, oldest first, by place in its history.
type Chosen = BTreeMap<usize, Arc<Snapshot>>;

/// An answer, and how much of what it should rest on could not be read.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) judgement: Judgement,
    /// Nodes that have stored nothing for a while, which are not judged.
    pub(crate) silent: Vec<Silent>,
    /// By node, the snapshot that the answer is about, where that is not the newest: the task was told to end after it.
    pub(crate) before_the_end: BTreeMap<String, Stand>,
    /// Since when nothing moves; a common time.
    pub(crate) since: Option<Timestamp>,
    /// How it differs from the closest healthy rank.
    pub(crate) twin: Option<Twin>,
    /// Words on snapshots that could not be read, a few.
    pub(crate) unread: Vec<Arc<str>>,
}

/// A snapshot, and when it was taken; a common time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stand {
    pub(crate) at: Timestamp,
    pub(crate) id: SnapshotId,
}

/// An answer, how long it is taken to be so, and what it rests on.
#[derive(Debug)]
struct Found {
    answered: Arc<Answered>,
    basis: Vec<Basis>,
    ends: Instant,
}

/// What an answer rests on of one node beside the snapshots that it is kept by: where all of it is as it was, the answer is so
/// still.
#[derive(Debug, PartialEq, Eq)]
struct Basis {
    ahead: i64,
    is_clock_compared: bool,
    /// How its processes ended, or why that is not known.
    records: Result<Vec<RecordKey>, Arc<str>>,
}

/// An answer that is there, or on its way, and the one before it.
#[derive(Debug, Default)]
struct Cell {
    before: Option<Arc<Found>>,
    found: OnceCell<Arc<Found>>,
}

/// The answers that are kept.
#[derive(Debug)]
pub(crate) struct Judged(Mutex<Held<Vec<Key>, Arc<Cell>>>);

impl Default for Judged {
    fn default() -> Self {
        Self(Mutex::new(Held::new(ANSWERS)))
    }
}

impl View {
    /// Returns what is wrong at `moment`. Who comes second waits for the answer that is on its way.
    pub(crate) async fn judge(&self, moment: &Moment) -> Arc<Answered> {
        let cell = self.judged.cell(keys(moment));
        self.found(cell, moment).await
    }

    /// Returns what was found last for the snapshots of `moment`, and whether that is taken to be so still; where nothing was found yet,
    /// it is waited for so long. Nothing where it is on its way.
    pub(crate) async fn judge_soon(
        &self,
        moment: &Moment,
        patience: Duration,
    ) -> Option<(Arc<Answered>, bool)> {
        let cell = self.judged.cell(keys(moment));
        if let Some(found) = cell.found.get() {
            return Some((Arc::clone(&found.answered), true));
        }
        if let Some(before) = &cell.before {
            return Some((Arc::clone(&before.answered), false));
        }
        let found = tokio::time::timeout(patience, self.found(cell, moment)).await;
        found.ok().map(|answered| (answered, true))
    }

    async fn found(&self, cell: Arc<Cell>, moment: &Moment) -> Arc<Answered> {
        let (shelf, ends) = (Arc::clone(&self.shelf), Arc::clone(&self.ends));
        let (asked, is_newest) = (moment.clone(), moment.is_newest());
        let work = self.work.clone();
        let judging = async move {
            let before = cell.before.as_deref();
            let find = || found(&shelf, &ends, &work, &asked, before);
            Arc::clone(&cell.found.get_or_init(find).await.answered)
        };
        if !is_newest {
            // Who moves on through time leaves: nobody else is waiting for it.
            return judging.await;
        }
        // A task of its own: an asker that goes away leaves an answer for the next one.
        tokio::spawn(judging)
            .await
            .unwrap_or_else(|error| Arc::new(failed(&error.to_string())))
    }
}

fn keys(moment: &Moment) -> Vec<Key> {
    moment.nodes.iter().map(NodeAt::key).collect()
}

impl Judged {
    fn cell(&self, keys: Vec<Key>) -> Arc<Cell> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = held.get(&keys);
        let found = known.as_ref().and_then(|cell| cell.found.get());
        let before = match (&known, found) {
            (Some(cell), None) => return Arc::clone(cell),
            (Some(cell), Some(found)) if Instant::now() < found.ends => return Arc::clone(cell),
            (_, found) => found.cloned(),
        };
        let cell = Arc::new(Cell {
            before,
            ..Cell::default()
        });
        held.put(keys, Arc::clone(&cell), 1, None);
        cell
    }
}

/// What is judged of one node.
struct Seen {
    /// When its newest snapshot was taken; a common time.
    at: Timestamp,
    is_clock_compared: bool,
    records: Records,
    /// The oldest first.
    snapshots: Vec<Arc<Snapshot>>,
    /// The instant by its own clock, where what came after it does not count.
    until: Option<Timestamp>,
}

/// Finds the answer, or that the one `before` is so still.
async fn found(
    shelf: &Arc<Shelf>,
    ends: &Arc<Ends>,
    work: &Work,
    moment: &Moment,
    before: Option<&Found>,
) -> Arc<Found> {
    let nodes = moment.nodes.iter();
    let asked: Vec<_> = nodes
        .map(|at| basis(Arc::clone(ends), Arc::clone(&moment.run), at.place.clone()))
        .collect();
    let basis: Vec<Basis> = stream::iter(asked).buffered(NODES).collect().await;
    let is_so_still = |before: &&Found| before.answered.unread.is_empty() && before.basis == basis;
    let answered = match before.filter(is_so_still) {
        Some(before) => Arc::clone(&before.answered),
        None => Arc::new(judged(shelf, ends, work, moment, &basis).await),
    };
    Arc::new(Found {
        answered,
        basis,
        ends: Instant::now() + FRESH,
    })
}

async fn judged(
    shelf: &Arc<Shelf>,
    ends: &Arc<Ends>,
    work: &Work,
    moment: &Moment,
    basis: &[Basis],
) -> Answered {
    // What came after an instant that was asked for does not count.
    let until = (!moment.is_newest()).then_some(moment.at);
    let nodes = moment.nodes.iter().zip(basis);
    let asked: Vec<_> = nodes
        .map(|(at, basis)| {
            let (shelf, ends, run) = (Arc::clone(shelf), Arc::clone(ends), Arc::clone(&moment.run));
            let records = basis.records.clone();
            seen(shelf, ends, run, at.clone(), records, until)
        })
        .collect();
    let all: Vec<_> = stream::iter(asked).buffered(NODES).collect().await;
    let (nodes, unread): (Vec<Seen>, Vec<Vec<Arc<str>>>) = all.into_iter().flatten().unzip();
    let unread = unread.into_iter().flatten().take(UNREAD);
    let newest = nodes.iter().filter_map(|node| node.snapshots.last());
    let is_large = Work::is_large(newest.map(Arc::as_ref));
    let judged = work.done(is_large, move || judge(nodes)).await;
    let mut answered = judged.unwrap_or_else(|words| failed(&words));
    let verdict = &answered.judgement.verdict;
    let common = |node: &str, at: Timestamp| moment.run.node(node).map_or(at, |it| it.common(at));
    let culprit = verdict.culprit.as_ref();
    let since = verdict.since.zip(culprit);
    answered.since = since.map(|(since, culprit)| common(&culprit.node, since));
    for (node, stand) in &mut answered.before_the_end {
        stand.at = common(node, stand.at);
    }
    answered.unread.extend(unread);
    answered
}

async fn basis(ends: Arc<Ends>, run: Arc<Run>, place: Place) -> Basis {
    let node = run.node(&place.node);
    Basis {
        ahead: node.map_or(0, |node| node.ahead),
        is_clock_compared: node.is_some_and(|node| node.is_clock_compared),
        records: ends.keys(&place).await,
    }
}

/// Reads what is judged of one node, and returns why some of it could not be read.
async fn seen(
    shelf: Arc<Shelf>,
    ends: Arc<Ends>,
    run: Arc<Run>,
    at: NodeAt,
    records: Result<Vec<RecordKey>, Arc<str>>,
    until: Option<Timestamp>,
) -> Option<(Seen, Vec<Arc<str>>)> {
    let (node, mut unread) = (run.node(&at.place.node)?, Vec::new());
    let entries = node.entries.get(..=at.position)?;
    let chosen = chosen(&shelf, node, entries, &mut unread).await;
    let seen = Seen {
        at: at.at,
        is_clock_compared: node.is_clock_compared,
        records: ends.read(&at.place, records, &mut unread).await,
        snapshots: chosen.into_values().collect(),
        until: until.map(|until| node.own(until)),
    };
    Some((seen, unread))
}

fn judge(mut nodes: Vec<Seen>) -> Answered {
    nodes.retain(|node| !node.snapshots.is_empty());
    let newest = nodes.iter().filter_map(|node| {
        Some(Newest {
            at: node.at.as_microseconds(),
            is_clock_compared: node.is_clock_compared,
            snapshot: node.snapshots.last()?,
        })
    });
    let silent = diagnose::silent(&newest.collect::<Vec<_>>());
    let is_silent = |node: &&Seen| {
        let name = node.snapshots.last().map(|it| &it.task.node);
        silent.iter().any(|it| Some(&it.node) == name)
    };
    let histories: Vec<History<'_>> = nodes
        .iter()
        .filter(|node| !is_silent(node))
        .map(|node| History {
            snapshots: node.snapshots.iter().map(Arc::as_ref).collect(),
            ends: node.records.until(node.until),
        })
        .collect();
    let judgement = diagnose::judge(&histories);
    Answered {
        before_the_end: histories.iter().filter_map(before_the_end).collect(),
        since: None,
        twin: diagnose::twin(&histories, &judgement.verdict),
        judgement,
        silent,
        unread: Vec::new(),
    }
}

/// A fault of ours is said as one, and is no reason to show nothing else.
fn failed(words: &str) -> Answered {
    Answered {
        before_the_end: BTreeMap::new(),
        judgement: diagnose::judge(&[]),
        silent: Vec::new(),
        since: None,
        twin: None,
        unread: vec![format!("judging failed: {words}").into()],
    }
}

/// The node of a history and the snapshot that an answer is about by its clock, where that is not the newest.
fn before_the_end(history: &History<'_>) -> Option<(String, Stand)> {
    let capture = &diagnose::stand(history)?.capture;
    let newest = history.snapshots.last()?;
    let stand = Stand {
        at: capture.started_at,
        id: capture.id,
    };
    (capture.id != newest.capture.id).then(|| (newest.task.node.clone(), stand))
}

/// Reads those of a node that are worth it.
async fn chosen(
    shelf: &Arc<Shelf>,
    node: &Node,
    entries: &[Entry],
    unread: &mut Vec<Arc<str>>,
) -> Chosen {
    let mut chosen = Chosen::new();
    let wanted = diagnose::newest_and_first(entries.len());
    add(shelf, node, entries, wanted, &mut chosen, unread).await;
    let Some(newest) = chosen.values().next_back().map(Arc::clone) else {
        return chosen;
    };
    let times: Vec<Timestamp> = entries.iter().map(Entry::at).collect();
    let around = diagnose::around_the_stand(&times, &newest);
    add(shelf, node, entries, around.collect(), &mut chosen, unread).await;
    chosen
}

async fn add(
    shelf: &Arc<Shelf>,
    node: &Node,
    entries: &[Entry],
    wanted: BTreeSet<usize>,
    chosen: &mut Chosen,
    unread: &mut Vec<Arc<str>>,
) {
    let wanted: Vec<usize> = wanted
        .into_iter()
        .filter(|place| !chosen.contains_key(place))
        .collect();
    let keys = wanted
        .iter()
        .map(|place| (node.key(&entries[*place]), entries[*place]));
    let loaded = read(shelf, keys.collect()).await;
    for (place, loaded) in wanted.into_iter().zip(loaded) {
        match loaded {
            Ok(snapshot) => {
                chosen.insert(place, snapshot);
            }
            Err(words) => unread.push(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use store::Store;

    use super::*;
    use crate::runs::RunId;

    #[tokio::test]
    async fn an_answer_that_is_old_is_found_anew_only_where_something_that_it_rests_on_is_another()
    {
        let store = Store::memory();
        let work = Work::new(1);
        let shelf = Arc::new(Shelf::new(store.clone(), 1 << 20, work.clone()));
        let ends = Arc::new(Ends::new(store));
        let place: Place = "a/attempt-0/diagnostics/node-b".parse().unwrap();
        let at = Timestamp::from_microseconds(0).unwrap();
        let id = model::SnapshotId {
            stamp: at,
            sequence: 0,
        };
        let entry = Entry { id, listed: None };
        // Of a node that the run does not know nothing is read.
        let moment = Moment {
            at,
            nodes: vec![NodeAt {
                at,
                position: 0,
                entry,
                place: place.clone(),
            }],
            run: Arc::new(Run {
                id: RunId {
                    task: place.task.clone(),
                    attempt: 0,
                },
                nodes: Vec::new(),
            }),
        };
        let first = found(&shelf, &ends, &work, &moment, None).await;
        let same = found(&shelf, &ends, &work, &moment, Some(&first)).await;
        assert!(Arc::ptr_eq(&same.answered, &first.answered));
        let is_anew = async |before: Found| {
            let found = found(&shelf, &ends, &work, &moment, Some(&before)).await;
            !Arc::ptr_eq(&found.answered, &before.answered)
        };
        let before = |unread: Vec<Arc<str>>, ahead: i64| Found {
            answered: Arc::new(Answered {
                unread,
                ..failed("")
            }),
            basis: vec![Basis {
                ahead,
                is_clock_compared: false,
                records: Ok(Vec::new()),
            }],
            ends: Instant::now(),
        };
        assert!(!is_anew(before(Vec::new(), 0)).await);
        assert!(is_anew(before(Vec::new(), 1)).await);
        assert!(is_anew(before(vec!["torn".into()], 0)).await);
    }
}
