//! What is wrong at an instant, as `taskscope why` says it; each answer is kept, because it takes many snapshots.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use diagnose::{History, Judgement};
use model::{Snapshot, Timestamp};
use store::{Entry, Key};
use tokio::sync::OnceCell;

use crate::moment::{Moment, read};
use crate::runs::Node;
use crate::shelf::{Held, Shelf};
use crate::view::View;

/// Answers that are kept.
const ANSWERS: u64 = 64;

/// The snapshots of one node that are judged, oldest first, by place in its history.
type Chosen = std::collections::BTreeMap<usize, Arc<Snapshot>>;
/// An answer that is there, or on its way.
type Cell = Arc<OnceCell<Arc<Answered>>>;

/// An answer, and how much of what it should rest on could not be read.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) judgement: Judgement,
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
        let (shelf, moment) = (Arc::clone(&self.shelf), moment.clone());
        // A task of its own: an asker that goes away leaves an answer for the next one.
        let judging = Arc::clone(&cell);
        let asked = tokio::spawn(async move {
            let judged = judging.get_or_init(|| judged(&shelf, &moment)).await;
            Arc::clone(judged)
        });
        match asked.await {
            Ok(judged) => judged,
            // A fault of ours is said as one, and is no reason to show nothing else.
            Err(error) => Arc::new(Answered {
                judgement: diagnose::judge(&[]),
                unread: vec![format!("judging failed: {error}").into()],
            }),
        }
    }
}

impl Judged {
    fn cell(&self, keys: Vec<Key>) -> Cell {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = held.get(&keys) {
            return cell;
        }
        let cell = Cell::default();
        held.put(keys, Arc::clone(&cell), 1, None);
        cell
    }
}

async fn judged(shelf: &Arc<Shelf>, moment: &Moment) -> Arc<Answered> {
    let (mut nodes, mut unread) = (Vec::new(), Vec::new());
    for at in &moment.nodes {
        if let Some(node) = moment.run.node(&at.place.node) {
            let entries = &node.entries[..=at.position];
            let chosen = chosen(shelf, node, entries, &mut unread).await;
            nodes.push(chosen.into_values().collect::<Vec<_>>());
        }
    }
    unread.truncate(3);
    let judge = move || {
        let histories: Vec<History<'_>> = nodes
            .iter()
            .filter(|snapshots| !snapshots.is_empty())
            .map(|snapshots| History {
                snapshots: snapshots.iter().map(Arc::as_ref).collect(),
                ends: Vec::new(),
            })
            .collect();
        diagnose::judge(&histories)
    };
    let judgement = tokio::task::spawn_blocking(judge)
        .await
        .unwrap_or_else(|error| {
            unread.push(format!("judging failed: {error}").into());
            diagnose::judge(&[])
        });
    Arc::new(Answered { judgement, unread })
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
