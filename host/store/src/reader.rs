//! Reading a store: which tasks, attempts and nodes it has, and their snapshots.

use std::collections::BTreeSet;

use model::{Snapshot, SnapshotId, TaskPath, Timestamp};
use tokio::task::JoinSet;

use crate::error::FormatError;
use crate::format;
use crate::index::{Index, Listed};
use crate::key::{diagnostics_folder, parse_attempt, parse_file_name, parse_node};
use crate::{Key, Place, Store, StoreError};

/// Snapshots that are opened at a time when an index is built.
const OPEN_AT_A_TIME: usize = 8;

/// One task in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEntry {
    /// Its attempts, first to last.
    pub attempts: Vec<u32>,
    /// When the newest snapshot of its last attempt was taken; `None` where that has none.
    pub newest: Option<Timestamp>,
    /// The task.
    pub task: TaskPath,
}

impl Store {
    /// Returns every task, the one with the newest snapshot first.
    pub async fn tasks(&self) -> Result<Vec<TaskEntry>, StoreError> {
        let mut tasks = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let names = self.list(&folder).await?.folders;
            let attempts = attempts_in(&names);
            if let (Ok(task), Some(last)) = (folder.trim_end_matches('/').parse(), attempts.last())
            {
                tasks.push(TaskEntry {
                    newest: self.newest_stamp(&task, *last).await?,
                    attempts,
                    task,
                });
            }
            // Only what can be a task's path or the beginning of one.
            let below = names.iter().map(|name| format!("{folder}{name}"));
            folders.extend(
                below
                    .filter(|path| path.parse::<TaskPath>().is_ok())
                    .map(|path| path + "/"),
            );
        }
        tasks.sort_by(|a, b| (b.newest, &a.task).cmp(&(a.newest, &b.task)));
        Ok(tasks)
    }

    /// Returns the nodes of an attempt, sorted; none where there is no such attempt.
    pub async fn nodes(&self, task: &TaskPath, attempt: u32) -> Result<Vec<String>, StoreError> {
        let names = self.list(&diagnostics_folder(task, attempt)).await?.folders;
        let mut nodes: Vec<String> = names
            .iter()
            .filter_map(|name| parse_node(name).map(str::to_owned))
            .collect();
        nodes.sort();
        Ok(nodes)
    }

    /// Returns the index of `place`, complete: a missing or torn one is built again from the snapshots, and
    /// snapshots that it lacks are added. [`StoreError::NotFound`] where there is neither index nor snapshot.
    pub async fn index(&self, place: &Place) -> Result<Index, StoreError> {
        let stored = self.stored_index(place).await?;
        let known: BTreeSet<SnapshotId> = stored
            .iter()
            .flat_map(|index| &index.snapshots)
            .map(|entry| entry.capture_id)
            .collect();
        let mut ids = self.snapshot_ids(place).await?;
        ids.retain(|id| !known.contains(id));
        let unlisted = self.listed(place, ids).await?;
        let Some(mut index) = stored else {
            return Index::rebuilt(&place.node, unlisted)
                .ok_or_else(|| self.missing(&place.index_key()));
        };
        for listed in unlisted {
            index.add(listed);
        }
        Ok(index)
    }

    /// Returns the snapshot at `key`.
    pub async fn load(&self, key: &Key) -> Result<Snapshot, StoreError> {
        format::decode(&self.fetch(&key.to_string()).await?, key)
    }

    /// Returns the key of the last snapshot at `place`, by sequence number; `None` where there is none.
    pub async fn newest(&self, place: &Place) -> Result<Option<Key>, StoreError> {
        let ids = self.snapshot_ids(place).await?;
        let newest = ids.into_iter().max_by_key(|id| (id.sequence, id.stamp));
        Ok(newest.map(|id| Key {
            place: place.clone(),
            id,
        }))
    }

    /// Returns the number after the last attempt that `node` has a part in, 0 where it has none: so the nodes of one
    /// attempt agree, whichever comes first.
    pub async fn next_attempt(&self, task: &TaskPath, node: &str) -> Result<u32, StoreError> {
        let listing = match self.list(&format!("{task}/")).await {
            Err(StoreError::NoStore { .. }) => return Ok(0),
            listing => listing?,
        };
        for &attempt in attempts_in(&listing.folders).iter().rev() {
            if self
                .nodes(task, attempt)
                .await?
                .iter()
                .any(|known| known == node)
            {
                return Ok(attempt.saturating_add(1));
            }
        }
        Ok(0)
    }

    async fn newest_stamp(
        &self,
        task: &TaskPath,
        attempt: u32,
    ) -> Result<Option<Timestamp>, StoreError> {
        let mut newest = None;
        for node in self.nodes(task, attempt).await? {
            let place = Place {
                task: task.clone(),
                attempt,
                node,
            };
            let ids = self.snapshot_ids(&place).await?;
            newest = newest.max(ids.into_iter().map(|id| id.stamp).max());
        }
        Ok(newest)
    }

    async fn snapshot_ids(&self, place: &Place) -> Result<Vec<SnapshotId>, StoreError> {
        let files = self.list(&place.snapshots_folder()).await?.files;
        Ok(files
            .iter()
            .filter_map(|name| parse_file_name(name))
            .collect())
    }

    /// Returns the index as it is stored; `None` for a missing or torn one. One of a later major version is an
    /// error, so that nobody replaces it.
    async fn stored_index(&self, place: &Place) -> Result<Option<Index>, StoreError> {
        let key = place.index_key();
        let text = match self.fetch(&key).await {
            Ok(text) => text,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        match format::from_json(&text) {
            Ok(index) => Ok(Some(index)),
            Err(source @ FormatError::Version { .. }) => Err(StoreError::Format { key, source }),
            Err(error) => {
                tracing::warn!(index = %key, %error, "The index is torn; reading the snapshots instead.");
                Ok(None)
            }
        }
    }

    /// Opens the snapshots `ids`. One that cannot be understood is left out, because the others still can.
    async fn listed(&self, place: &Place, ids: Vec<SnapshotId>) -> Result<Vec<Listed>, StoreError> {
        let mut all = Vec::new();
        let mut opening = JoinSet::new();
        for id in ids {
            if opening.len() == OPEN_AT_A_TIME {
                all.extend(next_of(&mut opening).await?);
            }
            let key = Key {
                place: place.clone(),
                id,
            };
            opening.spawn(open(self.clone(), key));
        }
        while !opening.is_empty() {
            all.extend(next_of(&mut opening).await?);
        }
        Ok(all)
    }
}

type Opened = Result<Option<Listed>, StoreError>;

async fn next_of(opening: &mut JoinSet<Opened>) -> Opened {
    let joined = opening.join_next().await;
    joined.map_or(Ok(None), |opened| opened.expect("opening does not panic"))
}

async fn open(store: Store, key: Key) -> Opened {
    let opened = match store.fetch(&key.to_string()).await {
        Ok(bytes) => {
            format::decode(&bytes, &key).map(|snapshot| Listed::of(&snapshot, &key, bytes.len()))
        }
        Err(error) => Err(error),
    };
    match opened {
        Ok(listed) => Ok(Some(listed)),
        Err(error @ (StoreError::Format { .. } | StoreError::NotFound { .. })) => {
            tracing::debug!(%key, %error, "A snapshot cannot be read; leaving it out of the index.");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns the attempts among the names of folders, sorted.
fn attempts_in(names: &[String]) -> Vec<u32> {
    let mut attempts: Vec<u32> = names
        .iter()
        .filter_map(|name| parse_attempt(name))
        .collect();
    attempts.sort_unstable();
    attempts
}
