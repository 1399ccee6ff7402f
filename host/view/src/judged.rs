//! What is wrong at an instant, as `taskscope why` says it; each answer is kept, because it takes many snapshots.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diagnose::{Culprit, History, Judgement, Newest, Silent, Twin};
use model::{Snapshot, Timestamp};
use store::{Entry, Key};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::ends::{Ends, Records};
use crate::moment::{Moment, read};
use crate::runs::Node;
use crate::shelf::{Held, Shelf};
use crate::view::View;
use crate::work::Work;

/// Answers that are kept.
const ANSWERS: u64 = 64;
/// How long the answer of the newest instant is taken to be so: an end may be told of after it.
const FRESH: Duration = Duration::from_secs(5);

/// The snapshots of one node that are judged, oldest first, by place in its history.
type Chosen = std::collections::BTreeMap<usize, Arc<Snapshot>>;
/// An answer that is there, or on its way.
type Cell = Arc<OnceCell<Arc<Answered>>>;

/// An answer, and how much of what it should rest on could not be read.
#[derive(Debug)]
pub(crate) struct Answered {
    /// When it is to be found anew; never where it is absent.
    ends: Option<Instant>,
    pub(crate) judgement: Judgement,
    /// Nodes that have stored nothing for a while, which are not judged.
    pub(crate) silent: Vec<Silent>,
    /// Since when the one to blame has not moved.
    pub(crate) since: Option<Timestamp>,
    /// How it differs from the closest healthy rank.
    pub(crate) twin: Option<Twin>,
    /// Words on snapshots that could not be read, a few.
    pub(crate) unread: Vec<Arc<str>>,
}

/// The answers that are kept.
#[derive(Debug)]
pub(crate) struct Judged(Mutex<Held<Vec<Key>, Cell>>);

impl Default for Judged {
    fn default() -> Self {
        Self(Mutex::new(Held::new(ANSWERS)))
    }
}

impl View {
    /// Returns what is wrong at `moment`. Who comes second waits for the answer that is on its way.
    pub(crate) async fn judge(&self, moment: &Moment) -> Arc<Answered> {
        let keys: Vec<Key> = moment
            .nodes
            .iter()
            .map(crate::moment::NodeAt::key)
            .collect();
        let cell = self.judged.cell(keys);
        let (shelf, ends) = (Arc::clone(&self.shelf), Arc::clone(&self.ends));
        let (asked, is_newest) = (moment.clone(), moment.is_newest());
        let work = self.work.clone();
        let judging = async move {
            let judged = cell
                .get_or_init(|| judged(&shelf, &ends, &work, &asked))
                .await;
            Arc::clone(judged)
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

impl Answered {
    fn is_old(&self) -> bool {
        self.ends.is_some_and(|ends| ends <= Instant::now())
    }
}

impl Judged {
    fn cell(&self, keys: Vec<Key>) -> Cell {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |cell: &Cell| cell.get().is_some_and(|it| it.is_old());
        if let Some(cell) = held.get(&keys).filter(|cell| !is_old(cell)) {
            return cell;
        }
        let cell = Cell::default();
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
}

async fn judged(shelf: &Arc<Shelf>, ends: &Ends, work: &Work, moment: &Moment) -> Arc<Answered> {
    let (mut nodes, mut unread) = (Vec::new(), Vec::new());
    for at in &moment.nodes {
        if let Some(node) = moment.run.node(&at.place.node) {
            let entries = &node.entries[..=at.position];
            let chosen = chosen(shelf, node, entries, &mut unread).await;
            nodes.push(Seen {
                at: at.at,
                is_clock_compared: node.is_clock_compared,
                records: ends.of(&at.place, &mut unread).await,
                snapshots: chosen.into_values().collect(),
            });
        }
    }
    unread.truncate(3);
    // What came after an instant that was asked for does not count.
    let until = (!moment.is_newest()).then_some(moment.at);
    let newest = nodes.iter().filter_map(|node| node.snapshots.last());
    let is_large = Work::is_large(newest.map(Arc::as_ref));
    let judged = work.done(is_large, move || judge(nodes, until)).await;
    let mut answered = judged.unwrap_or_else(|words| failed(&words));
    answered.unread.extend(unread);
    answered.ends = until.is_none().then(|| Instant::now() + FRESH);
    Arc::new(answered)
}

fn judge(mut nodes: Vec<Seen>, until: Option<Timestamp>) -> Answered {
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
            ends: node.records.until(until),
        })
        .collect();
    let judgement = diagnose::judge(&histories);
    let culprit = judgement.verdict.culprit.as_ref();
    Answered {
        ends: None,
        since: culprit.and_then(|culprit| since(culprit, &histories)),
        twin: diagnose::twin(&histories, &judgement.verdict),
        judgement,
        silent,
        unread: Vec::new(),
    }
}

/// A fault of ours is said as one, and is no reason to show nothing else.
fn failed(words: &str) -> Answered {
    Answered {
        ends: None,
        judgement: diagnose::judge(&[]),
        silent: Vec::new(),
        since: None,
        twin: None,
        unread: vec![format!("judging failed: {words}").into()],
    }
}

/// Since when the thread that is to blame, else the main thread of its process, has not run, as the newest snapshot says that tells.
/// Who is told to end runs once more.
fn since(culprit: &Culprit, histories: &[History<'_>]) -> Option<Timestamp> {
    let snapshots = histories
        .iter()
        .flat_map(|history| history.snapshots.iter().rev());
    let mut processes = snapshots
        .filter(|snapshot| snapshot.task.node == culprit.node)
        .flat_map(|snapshot| &snapshot.processes)
        .filter(|process| process.identity.to_string() == culprit.process);
    processes.find_map(|process| {
        let tid = culprit.thread.unwrap_or(process.pid);
        let mut threads = process.proc.threads.iter();
        threads.find(|thread| thread.tid == tid)?.unchanged_since
    })
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
