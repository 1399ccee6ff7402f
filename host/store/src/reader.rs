//! Reading a store: which tasks, attempts and nodes it has, and their snapshots.

use std::collections::BTreeSet;

use model::{Snapshot, SnapshotId, TaskPath, Timestamp};

use crate::history::key;
use crate::index::{Index, Listed, in_order};
use crate::key::{diagnostics_folder, parse_attempt, parse_node};
use crate::together::Together;
use crate::{Key, Place, Store, StoreError, format};

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
        for (task, attempts) in self.task_paths().await? {
            let last = attempts.last().copied().unwrap_or_default();
            let mut newest = None;
            for summary in self
                .summaries(self.places(&task, last).await?, |_| {})
                .await
            {
                newest = newest.max(summary?.last_at);
            }
            tasks.push(TaskEntry {
                attempts,
                newest,
                task,
            });
        }
        tasks.sort_by(|a, b| (b.newest, &a.task).cmp(&(a.newest, &b.task)));
        Ok(tasks)
    }

    /// Returns every task with its attempts, first to last; by path. Nothing is asked of their nodes.
    pub async fn task_paths(&self) -> Result<Vec<(TaskPath, Vec<u32>)>, StoreError> {
        let mut tasks = Vec::new();
        let mut folders = vec![String::new()];
        while !folders.is_empty() {
            let mut listing = Together::default();
            let mut listed = Vec::new();
            for folder in std::mem::take(&mut folders) {
                let store = self.clone();
                let list = async move { store.list(&folder).await.map(|it| (folder, it.folders)) };
                listed.extend(listing.add(list).await);
            }
            listed.extend(listing.rest().await);
            for one in listed {
                let (folder, names) = one?;
                let attempts = attempts_in(&names);
                if let (Ok(task), false) =
                    (folder.trim_end_matches('/').parse(), attempts.is_empty())
                {
                    tasks.push((task, attempts));
                }
                // Only what can be a task's path or the beginning of one.
                let below = names.iter().map(|name| format!("{folder}{name}"));
                let below = below.filter(|path| path.parse::<TaskPath>().is_ok());
                folders.extend(below.map(|path| path + "/"));
            }
        }
        tasks.sort();
        Ok(tasks)
    }

    /// Returns the places of the nodes of an attempt, in the order of their nodes.
    pub async fn places(&self, task: &TaskPath, attempt: u32) -> Result<Vec<Place>, StoreError> {
        let nodes = self.nodes(task, attempt).await?;
        Ok(nodes
            .into_iter()
            .map(|node| Place {
                task: task.clone(),
                attempt,
                node,
            })
            .collect())
    }

    /// Returns the nodes of an attempt, `node-2` before `node-10`; none where there is no such attempt.
    pub async fn nodes(&self, task: &TaskPath, attempt: u32) -> Result<Vec<String>, StoreError> {
        let names = self.list(&diagnostics_folder(task, attempt)).await?.folders;
        let mut nodes: Vec<String> = names
            .iter()
            .filter_map(|name| parse_node(name).map(str::to_owned))
            .collect();
        nodes.sort_by(|one, other| model::natural_order(one, other));
        Ok(nodes)
    }

    /// Returns the index of `place` with all that lies there: a missing or torn one is built again, and snapshots that it
    /// lacks are opened. Its entries are the unsealed ones. [`StoreError::NotFound`] where there is neither index nor
    /// snapshot.
    pub async fn index(&self, place: &Place) -> Result<Index, StoreError> {
        let (stored, unlisted) = self.index_and_unlisted(place).await?;
        let unlisted = self.listed(place, unlisted).await?;
        let Some(mut index) = stored else {
            return Index::rebuilt(&place.node, unlisted)
                .ok_or_else(|| self.missing(&place.index_key()));
        };
        for listed in unlisted {
            index.add(listed);
        }
        Ok(index)
    }

    /// Returns the index as it is stored, or made of its segments where it is missing or torn; and the snapshots that lie
    /// at `place` and are in neither, oldest first. Of what is older than the index goes back, nothing is asked.
    pub(crate) async fn index_and_unlisted(
        &self,
        place: &Place,
    ) -> Result<(Option<Index>, Vec<SnapshotId>), StoreError> {
        let (mut stored, mut sealed) = (self.head(place).await?, BTreeSet::new());
        let is_lost = stored.is_none();
        if is_lost {
            let names = self.segments(place).await?;
            let there: BTreeSet<SnapshotId> =
                self.ids_from(place, None).await?.into_iter().collect();
            for mut segment in self.open_segments(place, names).await? {
                segment.forget(&(&segment.ids() - &there));
                segment.forget(&sealed);
                sealed.extend(segment.ids());
                stored
                    .get_or_insert_with(|| segment.without_entries())
                    .seal(&segment);
            }
        }
        let oldest = stored.iter().flat_map(|index| &index.snapshots);
        let oldest = oldest.map(|entry| entry.capture_id.stamp).min();
        let from = if is_lost { None } else { oldest };
        let known = stored.as_ref().map(Index::ids).unwrap_or_default();
        let mut ids = self.ids_from(place, from).await?;
        ids.retain(|id| !known.contains(id) && !sealed.contains(id));
        if let (Some(index), false) = (&stored, is_lost) {
            // Where the clock was set back, older ones have later names; and those that must not go are listed already.
            ids.retain(|id| index.is_beyond_sealed(*id));
        }
        ids.sort_by_key(|id| in_order(*id));
        Ok((stored, ids))
    }

    /// Returns the snapshot at `key`.
    pub async fn load(&self, key: &Key) -> Result<Snapshot, StoreError> {
        let bytes = self.fetch(&key.to_string()).await?;
        let key = key.clone();
        self.aside(move || format::decode(&bytes, &key)).await?
    }

    /// Returns the object of the snapshot at `key` as it is stored, for who decodes it elsewhere ([`crate::decode_within`]).
    pub async fn object(&self, key: &Key) -> Result<Vec<u8>, StoreError> {
        self.fetch(&key.to_string()).await
    }

    /// Returns the key of the last snapshot at `place`, by sequence number; `None` where there is none.
    pub async fn newest(&self, place: &Place) -> Result<Option<Key>, StoreError> {
        let newest = self.summary(place).await?.newest;
        Ok(newest.map(|id| key(place, id)))
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

    /// Opens the snapshots `ids`. One that cannot be understood is left out, because the others still can.
    pub(crate) async fn listed(
        &self,
        place: &Place,
        ids: Vec<SnapshotId>,
    ) -> Result<Vec<Listed>, StoreError> {
        let mut opening = Together::default();
        let mut opened = Vec::new();
        for id in ids {
            opened.extend(opening.add(open(self.clone(), key(place, id))).await);
        }
        opened.extend(opening.rest().await);
        let all: Result<Vec<Option<Listed>>, StoreError> = opened.into_iter().collect();
        Ok(all?.into_iter().flatten().collect())
    }
}

async fn open(store: Store, key: Key) -> Result<Option<Listed>, StoreError> {
    let name = key.to_string();
    let opened = match store.fetch(&name).await {
        Ok(bytes) => {
            let list = move || {
                let snapshot = format::decode(&bytes, &key)?;
                Ok(Listed::of(&snapshot, &key, bytes.len()))
            };
            store.aside(list).await.flatten()
        }
        Err(error) => Err(error),
    };
    match opened {
        Ok(listed) => Ok(Some(listed)),
        Err(error @ (StoreError::Format { .. } | StoreError::NotFound { .. })) => {
            tracing::debug!(key = %name, %error, "A snapshot cannot be read; leaving it out of the index.");
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
