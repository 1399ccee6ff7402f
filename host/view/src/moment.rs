//! A run at one instant: of each node the newest snapshot that is not later.

use std::sync::Arc;

use model::{Snapshot, Timestamp};
use store::{At, Entry, Key, Place};
use tokio::task::JoinSet;

use crate::aged::AsOf;
use crate::answer::Trouble;
use crate::query::Query;
use crate::runs::{Node, Run, RunId};
use crate::shelf::{Loaded, Shelf};
use crate::view::View;

/// A run at one instant.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    /// When the newest of the snapshots was taken; a common time.
    pub(crate) at: Timestamp,
    /// The nodes that had a snapshot by then.
    pub(crate) nodes: Vec<NodeAt>,
    pub(crate) run: Arc<Run>,
}

/// A node at that instant.
#[derive(Clone, Debug)]
pub(crate) struct NodeAt {
    /// When that was; a common time.
    pub(crate) at: Timestamp,
    /// Its place among the entries of the node.
    pub(crate) position: usize,
    pub(crate) entry: Entry,
    pub(crate) place: Place,
}

impl View {
    /// Returns the run that a query asks for; the newest where it asks for none.
    pub(crate) async fn run_of(&self, query: &Query) -> Result<Arc<Run>, Trouble> {
        self.run_as_of(query, AsOf::Now).await
    }

    /// The same as the store held it then.
    pub(crate) async fn run_as_of(&self, query: &Query, as_of: AsOf) -> Result<Arc<Run>, Trouble> {
        let asked = query.task.clone().or_else(|| self.shown.task.clone());
        let attempt = query.attempt.or_else(|| {
            let is_same = query.task.is_none() || query.task == self.shown.task;
            self.shown.attempt.filter(|_| is_same)
        });
        let id = if let (Some(task), Some(attempt)) = (&asked, attempt) {
            RunId {
                task: task.clone(),
                attempt,
            }
        } else {
            self.newest(asked, attempt, as_of).await?
        };
        self.runs.run(&self.store, &id, as_of).await
    }

    async fn newest(
        &self,
        task: Option<model::TaskPath>,
        attempt: Option<u32>,
        as_of: AsOf,
    ) -> Result<RunId, Trouble> {
        let list = self.runs.list(&self.store, as_of).await?;
        let mut entries = list.iter();
        let found = match &task {
            Some(task) => entries.find(|entry| entry.task == *task),
            None => entries.next(),
        };
        let Some(entry) = found else {
            let location = self.store.location();
            return Err(match task {
                Some(task) => Trouble::missing(
                    format!("{location} holds no task `{task}`"),
                    "the list of runs shows what it holds",
                ),
                None => Trouble::missing(
                    format!("{location} holds no snapshots yet"),
                    "`taskscope run -- COMMAND` makes some; this page shows them as they come",
                ),
            });
        };
        let newest = entry.attempts.last().copied().unwrap_or_default();
        Ok(RunId {
            task: entry.task.clone(),
            attempt: attempt.unwrap_or(newest),
        })
    }

    /// Returns the snapshot of one node that a query asks for.
    pub(crate) async fn snapshot_of(&self, query: &Query) -> Result<Arc<Snapshot>, Trouble> {
        let run = self.run_of(query).await?;
        let node = self.node_of(&run, query)?;
        let name = &node.place.node;
        let moment = Self::moment(&run, query.at, Some(name))?;
        let at = moment.nodes.iter().find(|at| at.place == node.place);
        let at = at.ok_or_else(|| {
            Trouble::missing(
                format!("node `{name}` has no snapshot for {}", query.at),
                "ask for a later time",
            )
        })?;
        let size_bytes = at.entry.listed.map(|facts| facts.size_bytes);
        let loaded = self.shelf.snapshot(&at.key(), size_bytes).await;
        loaded.map_err(|words| Trouble::unavailable(words.to_string()))
    }

    /// Returns the instant of a run that `at` names; an id is looked for on `node` first.
    pub(crate) fn moment(run: &Arc<Run>, at: At, node: Option<&str>) -> Result<Moment, Trouble> {
        let until = match at {
            At::Latest => None,
            At::Time(time) => Some(time),
            At::Id(_) => Some(time_of(run, at, node)?),
        };
        let found = run.nodes.iter().filter_map(|node| {
            let at = until.map_or(At::Latest, At::Time);
            let position = node.position(at)?;
            Some(NodeAt {
                at: node.common(node.entries[position].at()),
                position,
                entry: node.entries[position],
                place: node.place.clone(),
            })
        });
        let nodes: Vec<NodeAt> = found.collect();
        let Some(newest) = nodes.iter().map(|node| node.at).max() else {
            return Err(nothing(run, at));
        };
        Ok(Moment {
            at: newest,
            nodes,
            run: Arc::clone(run),
        })
    }
}

impl Moment {
    /// Whether nothing later is known of any node.
    pub(crate) fn is_newest(&self) -> bool {
        self.nodes.iter().all(|at| {
            let node = self.run.node(&at.place.node);
            node.is_none_or(|node| node.entries.len() == at.position + 1)
        })
    }

    /// Returns the nodes that had no snapshot by then.
    pub(crate) fn without_snapshot(&self) -> impl Iterator<Item = &str> {
        let names = self.run.nodes.iter().map(|node| node.place.node.as_str());
        names.filter(|name| self.nodes.iter().all(|at| at.place.node != *name))
    }

    /// Returns the snapshot of a node as an address names it; the instant where it has none.
    pub(crate) fn named(&self, node: &str) -> String {
        let mut nodes = self.nodes.iter();
        nodes
            .find(|at| at.place.node == node)
            .map_or_else(|| self.at.to_string(), |at| at.entry.id.to_string())
    }

    /// Reads the snapshots of all nodes, several at a time; in the order of the nodes.
    pub(crate) async fn snapshots(&self, shelf: &Arc<Shelf>) -> Vec<Loaded> {
        let keys = self.nodes.iter().map(|node| (node.key(), node.entry));
        read(shelf, keys.collect()).await
    }
}

impl NodeAt {
    pub(crate) fn key(&self) -> Key {
        Key {
            place: self.place.clone(),
            id: self.entry.id,
        }
    }
}

impl Node {
    pub(crate) fn key(&self, entry: &Entry) -> Key {
        Key {
            place: self.place.clone(),
            id: entry.id,
        }
    }
}

/// Reads snapshots, several at a time; in the order of the keys.
pub(crate) async fn read(shelf: &Arc<Shelf>, keys: Vec<(Key, Entry)>) -> Vec<Loaded> {
    let mut reading = JoinSet::new();
    let count = keys.len();
    for (position, (key, entry)) in keys.into_iter().enumerate() {
        let shelf = Arc::clone(shelf);
        reading.spawn(async move {
            let size_bytes = entry.listed.map(|facts| facts.size_bytes);
            (position, shelf.snapshot(&key, size_bytes).await)
        });
    }
    let mut loaded: Vec<Loaded> = vec![Err("reading it failed".into()); count];
    while let Some(read) = reading.join_next().await {
        if let Ok((position, one)) = read {
            loaded[position] = one;
        }
    }
    loaded
}

/// Those that could be read.
pub(crate) fn readable(loaded: &[Loaded]) -> Vec<&Snapshot> {
    loaded.iter().flatten().map(Arc::as_ref).collect()
}

fn time_of(run: &Run, at: At, node: Option<&str>) -> Result<Timestamp, Trouble> {
    let named = node.and_then(|name| run.node(name));
    let mut nodes = named.into_iter().chain(&run.nodes);
    let found = nodes.find_map(|node| Some(node.common(node.entries[node.position(at)?].at())));
    found.ok_or_else(|| nothing(run, at))
}

fn nothing(run: &Run, at: At) -> Trouble {
    let RunId { task, attempt } = &run.id;
    if let Some((first, last)) = run.span() {
        return Trouble::missing(
            format!("attempt {attempt} of `{task}` has no snapshot for {at}"),
            format!("there are {} from {first} to {last}", run.snapshots()),
        );
    }
    let reasons = run.nodes.iter().filter_map(|node| node.trouble.clone());
    let reasons: Vec<String> = reasons.collect();
    Trouble::missing(
        format!("attempt {attempt} of `{task}` has no snapshot yet"),
        if reasons.is_empty() {
            "the first one comes right after the start".to_owned()
        } else {
            reasons.join("; ")
        },
    )
}
