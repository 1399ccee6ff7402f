//! ROOT: which store a command means, and which task, node and snapshot in it.

use std::time::Duration;

use anyhow::{Context, bail};
use model::TaskPath;
use store::{Entry, Key, Location, Place, Since, Store, StoreError};

use crate::config::Loaded;
use crate::outcome::Refusal;
use crate::storage;

pub(crate) use store::At;

/// Where snapshots go when nothing else is said.
const DEFAULT_ROOT: &str = ".taskscope";

/// How much older a snapshot is that another is compared with, where there is one so old.
const COMPARED: Duration = Duration::from_secs(10);

/// How much further back than a given time is looked. A clock that was set by an hour is seen through, or that of another node.
pub(crate) const AROUND: Duration = Duration::from_hours(2);

/// Returns the store that `option` names, else the `store` setting, else `.taskscope`.
pub(crate) fn location(option: Option<&str>, loaded: &Loaded) -> anyhow::Result<Location> {
    let working_directory = std::env::current_dir().context("cannot tell the working directory")?;
    let setting = loaded.settings.store.url.as_deref();
    let (text, base) = match (option, setting) {
        (Some(text), _) => (text, working_directory),
        (None, Some(text)) => (text, working_directory.join(loaded.directory())),
        (None, None) => (DEFAULT_ROOT, working_directory),
    };
    let location = Location::parse(text, &base).context(Refusal::Settings)?;
    Ok(storage::with_conventions(location))
}

/// A snapshot that was chosen, and where it stands among the others of its node.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) key: Key,
    /// Position among the node's snapshots, from 1.
    pub(crate) position: usize,
    /// One to compare it with: the newest that is at least [`COMPARED`] older, else the oldest.
    pub(crate) earlier: Option<Key>,
    /// How many the node has.
    pub(crate) total: usize,
    /// The other nodes of the attempt.
    pub(crate) other_nodes: Vec<String>,
}

/// What a command says of the task, attempt and node that it means.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted<'a> {
    pub(crate) attempt: Option<u32>,
    pub(crate) node: Option<&'a str>,
    pub(crate) task: Option<&'a str>,
}

/// One task, with those of its attempts in which snapshots are looked for.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    /// Never empty, the newest first.
    attempts: Vec<u32>,
    node: Option<&'a str>,
    task: TaskPath,
}

impl Source<'_> {
    /// Returns the snapshot that `at` names: an id in any of the attempts, everything else in the newest.
    pub(crate) async fn find(&self, store: &Store, at: At) -> anyhow::Result<Chosen> {
        let mut attempt = self.attempts[0];
        if let (At::Id(id), true) = (at, self.attempts.len() > 1) {
            for &candidate in &self.attempts {
                // An attempt without the node is no reason to stop.
                let Ok((place, _)) = self.place(store, candidate).await else {
                    continue;
                };
                if store.has(&Key { place, id }).await? {
                    attempt = candidate;
                    break;
                }
            }
        }
        let (mut place, mut other_nodes) = self.place(store, attempt).await?;
        let mut skipped = Vec::new();
        loop {
            let found = find(store, &place, at).await;
            let has_none = found.as_ref().is_err_and(has_no_snapshot);
            if self.node.is_some() || !has_none || other_nodes.is_empty() {
                other_nodes.extend(skipped);
                return Ok(Chosen {
                    other_nodes,
                    ..found?
                });
            }
            // A node that has only just begun does not hide the others.
            let next = other_nodes.remove(0);
            skipped.push(std::mem::replace(&mut place.node, next));
        }
    }

    /// Returns the node's place in the newest attempt, and the other nodes.
    pub(crate) async fn newest_place(&self, store: &Store) -> anyhow::Result<(Place, Vec<String>)> {
        self.place(store, self.attempts[0]).await
    }

    /// Returns the place of the node in an attempt, by default of the first, and the other nodes.
    async fn place(&self, store: &Store, attempt: u32) -> anyhow::Result<(Place, Vec<String>)> {
        let mut nodes = store.nodes(&self.task, attempt).await?;
        let node = pick_node(&nodes, self.node, &self.task)?;
        nodes.retain(|other| *other != node);
        let place = Place {
            task: self.task.clone(),
            attempt,
            node,
        };
        Ok((place, nodes))
    }
}

/// Whether a node was looked at that has stored no snapshot yet.
fn has_no_snapshot(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<StoreError>();
    matches!(error, Some(StoreError::NotFound { .. }))
}

/// Returns the snapshot at `place` that `at` names.
async fn find(store: &Store, place: &Place, at: At) -> anyhow::Result<Chosen> {
    let mut history = store.history(place, since(at)).await?;
    let mut position = at.position(&history.entries);
    // One that no index lists, or of a time when the clock was wrong.
    if position.is_none() && history.older > 0 {
        history = store.history(place, Since::Start).await?;
        position = at.position(&history.entries);
    }
    let entries = &history.entries;
    let position = position
        .with_context(|| not_there(entries, at))
        .with_context(|| format!("in {place}"))?;
    let key = |entry: &Entry| Key {
        place: place.clone(),
        id: entry.id,
    };
    let older = usize::try_from(history.older).unwrap_or(usize::MAX);
    Ok(Chosen {
        key: key(&entries[position]),
        earlier: compared(entries, position).map(key),
        position: older.saturating_add(position + 1),
        total: older.saturating_add(entries.len()),
        other_nodes: Vec::new(),
    })
}

/// Returns the task that is wanted, by default the newest, with its attempts or the one that is wanted.
pub(crate) async fn source<'a>(
    store: &Store,
    location: &Location,
    wanted: Wanted<'a>,
) -> anyhow::Result<Source<'a>> {
    let path = wanted
        .task
        .map(str::parse::<TaskPath>)
        .transpose()
        .context(Refusal::Settings)?;
    let mut tasks = tasks(store, location).await?;
    if let Some(path) = &path {
        tasks.retain(|(task, _)| task == path);
    }
    let Some((mut task, mut attempts)) = tasks.first().cloned() else {
        match path {
            Some(path) => {
                bail!("{location} holds no task `{path}`; `taskscope list` shows what it holds")
            }
            None => bail!("{location} holds no snapshots; `taskscope run -- COMMAND` makes some"),
        }
    };
    if tasks.len() > 1 {
        let newest = store.tasks().await?.into_iter().next();
        let newest = newest.context("the tasks are gone")?;
        (task, attempts) = (newest.task, newest.attempts);
    }
    if let Some(attempt) = wanted.attempt {
        if !attempts.contains(&attempt) {
            let known: Vec<String> = attempts.iter().map(u32::to_string).collect();
            let known = known.join(", ");
            bail!("task `{task}` has no attempt {attempt}; it has {known}");
        }
        attempts = vec![attempt];
    }
    attempts.reverse();
    attempts.first().context("the task has no attempt")?;
    Ok(Source {
        attempts,
        node: wanted.node,
        task,
    })
}

/// Returns every task of `store` with its attempts, by path.
pub(crate) async fn tasks(
    store: &Store,
    location: &Location,
) -> anyhow::Result<Vec<(TaskPath, Vec<u32>)>> {
    match store.task_paths().await {
        Err(StoreError::NoStore { .. }) => {
            bail!("there is no store at {location}; `taskscope run -- COMMAND` makes one")
        }
        other => Ok(other?),
    }
}

/// How many names a line of words has at most.
const FEW: usize = 8;

/// Returns the names, or the first few of many, for a line of words.
pub(crate) fn few(names: &[String]) -> String {
    let more = names.len().saturating_sub(FEW);
    let named = names[..names.len() - more].join(", ");
    match more {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn pick_node(nodes: &[String], wanted: Option<&str>, task: &TaskPath) -> anyhow::Result<String> {
    match wanted {
        None => nodes
            .first()
            .cloned()
            .with_context(|| format!("task `{task}` has no node yet")),
        Some(wanted) => nodes
            .iter()
            .find(|node| *node == wanted)
            .cloned()
            .with_context(|| {
                format!(
                    "task `{task}` has no node `{wanted}`; it has {}",
                    nodes.join(", ")
                )
            }),
    }
}

/// How far back the snapshots are asked for: some further than the one that is meant, for one to compare it with.
fn since(at: At) -> Since {
    match at {
        At::Latest => Since::Recent,
        At::Id(id) => Since::Time(id.stamp.before(AROUND)),
        At::Time(time) => Since::Time(time.before(AROUND)),
    }
}

/// The entry that the one at `position` is compared with: far enough away that a rate is no accident, and no further.
fn compared(entries: &[Entry], position: usize) -> Option<&Entry> {
    let (now, before) = (&entries[position], &entries[..position]);
    let is_older = |entry: &&Entry| now.at().since(entry.at()) >= COMPARED;
    let oldest = before.iter().find(|entry| entry.at() < now.at());
    before.iter().rfind(is_older).or(oldest)
}

fn not_there(entries: &[Entry], at: At) -> String {
    match (entries.first(), at) {
        (None, _) => "there is no snapshot yet".to_owned(),
        (Some(first), At::Time(time)) => format!(
            "no snapshot is as old as {time}; the first is of {}",
            first.at()
        ),
        (Some(first), _) => format!(
            "there is no such snapshot; there are {} from {} on",
            entries.len(),
            first.id
        ),
    }
}
