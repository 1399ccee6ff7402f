//! ROOT: which store a command means, and which task, node and snapshot in it.

use std::time::Duration;

use anyhow::{Context, bail};
use model::{SnapshotId, TaskPath, Timestamp};
use store::{IndexEntry, Key, Location, Place, Store, StoreError, TaskEntry};

use crate::config::Loaded;
use crate::outcome::Refusal;
use crate::storage;

/// Where snapshots go when nothing else is said.
const DEFAULT_ROOT: &str = ".taskscope";

/// How much older a snapshot is that another is compared with, where there is one so old.
const COMPARED: Duration = Duration::from_secs(10);

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

/// Which snapshot of a node is meant: `--at`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum At {
    /// The newest.
    #[default]
    Latest,
    /// The one with this id.
    Id(SnapshotId),
    /// The newest that is not later.
    Time(Timestamp),
}

impl std::str::FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        Timestamp::parse(text).map(Self::Time).ok_or_else(|| {
            format!(
                "`{text}` is neither `latest`, a snapshot id such as 20261129T144054.169782Z-000000, \
                 nor a UTC time such as 2026-11-29T14:41:00Z"
            )
        })
    }
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

/// Returns the snapshot that `task`, `node` and `at` name: by default the newest of the newest task.
pub(crate) async fn choose(
    store: &Store,
    location: &Location,
    task: Option<&str>,
    node: Option<&str>,
    at: At,
) -> anyhow::Result<Chosen> {
    let tasks = tasks(store, location).await?;
    let wanted = task
        .map(str::parse::<TaskPath>)
        .transpose()
        .context(Refusal::Settings)?;
    let entry = match &wanted {
        Some(path) => tasks.iter().find(|entry| entry.task == *path),
        None => tasks.first(),
    };
    let Some(entry) = entry else {
        match wanted {
            Some(path) => {
                bail!("{location} holds no task `{path}`; `taskscope list` shows what it holds")
            }
            None => bail!("{location} holds no snapshots; `taskscope run -- COMMAND` makes some"),
        }
    };
    let attempt = *entry.attempts.last().context("the task has no attempt")?;
    let mut nodes = store.nodes(&entry.task, attempt).await?;
    let node = pick_node(&nodes, node, &entry.task)?;
    nodes.retain(|other| *other != node);
    let place = Place {
        task: entry.task.clone(),
        attempt,
        node,
    };
    let index = store.index(&place).await?;
    let position = pick_entry(&index.snapshots, at).with_context(|| format!("in {place}"))?;
    let key = |entry: &IndexEntry| Key {
        place: place.clone(),
        id: entry.capture_id,
    };
    Ok(Chosen {
        key: key(&index.snapshots[position]),
        earlier: compared(&index.snapshots, position).map(key),
        position: position + 1,
        total: index.snapshots.len(),
        other_nodes: nodes,
    })
}

/// Returns every task of `store`, the newest first.
pub(crate) async fn tasks(store: &Store, location: &Location) -> anyhow::Result<Vec<TaskEntry>> {
    match store.tasks().await {
        Err(StoreError::NoStore { .. }) => {
            bail!("there is no store at {location}; `taskscope run -- COMMAND` makes one")
        }
        other => Ok(other?),
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

/// The entry that the one at `position` is compared with: far enough away that a rate is no accident, and no further.
fn compared(entries: &[IndexEntry], position: usize) -> Option<&IndexEntry> {
    let (now, before) = (&entries[position], &entries[..position]);
    let is_older = |entry: &&IndexEntry| now.started_at.since(entry.started_at) >= COMPARED;
    let oldest = before
        .iter()
        .find(|entry| entry.started_at < now.started_at);
    before.iter().rfind(is_older).or(oldest)
}

fn pick_entry(entries: &[IndexEntry], at: At) -> anyhow::Result<usize> {
    let found = match at {
        At::Latest => entries.len().checked_sub(1),
        At::Id(id) => entries.iter().position(|entry| entry.capture_id == id),
        At::Time(time) => entries.iter().rposition(|entry| entry.started_at <= time),
    };
    found.with_context(|| match (entries.first(), at) {
        (None, _) => "there is no snapshot yet".to_owned(),
        (Some(first), At::Time(time)) => format!(
            "no snapshot is as old as {time}; the first is of {}",
            first.started_at
        ),
        (Some(first), _) => {
            format!(
                "there is no such snapshot; there are {} from {} on",
                entries.len(),
                first.capture_id
            )
        }
    })
}
