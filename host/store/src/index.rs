//! The list of a node's snapshots, so that reading need not open each: `index.json`.
//!
//! Compact JSON with sorted keys, not compressed, replaced whole after each snapshot. The names are those of
//! `metaflow_pyspy`; `boot_id`, `root` and `trigger` are ours and optional. Losing it loses nothing: the reader builds
//! it again from the snapshots.

use std::collections::BTreeMap;

use model::{ProcessId, SCHEMA_VERSION, Snapshot, SnapshotId, Task, Timestamp, Trigger};
use serde::{Deserialize, Serialize};

use crate::Key;

/// The snapshots of one node in one attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// The boot during which the newest snapshot was taken; process start times compare only within one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The version of the collector that took the newest snapshot.
    pub collector_version: String,
    /// How many snapshots were thrown away before they were stored, because the spool was full; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evicted_count: Option<u64>,
    /// The `focus-files` setting.
    pub focus_files: Vec<String>,
    /// The node identity.
    pub node: String,
    /// The task's main process, by the newest snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<ProcessId>,
    /// [`SCHEMA_VERSION`].
    pub schema_version: String,
    /// By sequence number, then by time.
    pub snapshots: Vec<IndexEntry>,
    /// The task.
    pub task: Task,
    /// When it was last replaced.
    pub updated_at: Timestamp,
}

/// One snapshot in an index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IndexEntry {
    /// The snapshot's identity.
    pub capture_id: SnapshotId,
    /// When everything was read.
    pub completed_at: Timestamp,
    /// From start to completion, milliseconds.
    pub duration_ms: f64,
    /// The object, relative to the store; a [`Key`] as text.
    pub key: String,
    /// How many processes it has.
    pub process_count: u64,
    /// How many of them have Python stacks.
    pub pyspy_process_count: u64,
    /// How many of them are Python interpreters.
    pub python_process_count: u64,
    /// From 0 over the attempt.
    pub sequence: u64,
    /// The size of the object, compressed.
    pub size_bytes: u64,
    /// When discovery began.
    pub started_at: Timestamp,
    /// What caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
}

/// What a snapshot says for the index: its entry, and what of the index itself comes from its newest snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) entry: IndexEntry,
    boot_id: Option<String>,
    collector_version: String,
    focus_files: Vec<String>,
    root: Option<ProcessId>,
    task: Task,
}

impl Listed {
    pub(crate) fn of(snapshot: &Snapshot, key: &Key, size_bytes: usize) -> Self {
        let capture = &snapshot.capture;
        let processes = &snapshot.processes;
        let count = |wanted: fn(&model::Process) -> bool| {
            processes.iter().filter(|process| wanted(process)).count() as u64
        };
        Self {
            entry: IndexEntry {
                capture_id: key.id,
                completed_at: capture.completed_at,
                duration_ms: capture.duration_ms,
                key: key.to_string(),
                process_count: processes.len() as u64,
                pyspy_process_count: count(|process| process.pyspy.is_some()),
                python_process_count: count(|process| process.python_candidate),
                sequence: capture.sequence,
                size_bytes: size_bytes as u64,
                started_at: capture.started_at,
                trigger: capture.trigger,
            },
            boot_id: snapshot.machine.boot_id.clone(),
            collector_version: snapshot.collector_version.clone(),
            focus_files: snapshot.focus_files.clone(),
            root: snapshot.scope.as_ref().map(|scope| scope.root),
            task: snapshot.task.clone(),
        }
    }
}

impl Index {
    /// Returns an index without snapshots.
    pub(crate) fn empty(task: Task, node: String, focus_files: Vec<String>) -> Self {
        Self {
            boot_id: None,
            collector_version: String::new(),
            evicted_count: None,
            focus_files,
            node,
            root: None,
            schema_version: SCHEMA_VERSION.to_owned(),
            snapshots: Vec::new(),
            task,
            updated_at: Timestamp::from_microseconds(0).expect("1970 is within the range"),
        }
    }

    /// Returns the index of `listed`, as if it had been written after each; `None` for none.
    pub(crate) fn rebuilt(node: &str, listed: Vec<Listed>) -> Option<Self> {
        let newest = listed.iter().max_by_key(|one| place_in_order(&one.entry))?;
        let mut index = Self::empty(
            newest.task.clone(),
            node.to_owned(),
            newest.focus_files.clone(),
        );
        for one in listed {
            index.updated_at = index.updated_at.max(one.entry.completed_at);
            index.add(one);
        }
        Some(index)
    }

    /// Adds a snapshot, or replaces the entry with the same id.
    pub(crate) fn add(&mut self, listed: Listed) {
        let is_newest = self
            .snapshots
            .last()
            .is_none_or(|last| place_in_order(last) <= place_in_order(&listed.entry));
        if is_newest {
            self.boot_id = listed.boot_id;
            self.collector_version = listed.collector_version;
            self.root = listed.root;
        }
        self.adopt(vec![listed.entry]);
    }

    /// Adds what another index of the same place has: an earlier collector's, or that of a second one.
    pub(crate) fn merge(&mut self, other: Self) {
        if self.snapshots.is_empty() {
            self.boot_id = other.boot_id;
            self.collector_version = other.collector_version;
            self.root = other.root;
        }
        self.evicted_count = self.evicted_count.max(other.evicted_count);
        self.updated_at = self.updated_at.max(other.updated_at);
        self.adopt(other.snapshots);
    }

    fn adopt(&mut self, entries: Vec<IndexEntry>) {
        let known = std::mem::take(&mut self.snapshots);
        let by_order: BTreeMap<_, _> = known
            .into_iter()
            .chain(entries)
            .map(|entry| (place_in_order(&entry), entry))
            .collect();
        self.snapshots = by_order.into_values().collect();
    }

    /// Returns the sequence number after the highest.
    pub(crate) fn next_sequence(&self) -> u64 {
        let highest = self.snapshots.iter().map(|entry| entry.sequence).max();
        highest.map_or(0, |highest| highest.saturating_add(1))
    }
}

/// By sequence number first: the wall clock may be set back during a run.
fn place_in_order(entry: &IndexEntry) -> (u64, SnapshotId) {
    (entry.sequence, entry.capture_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;
    use crate::sample::{snapshot, task};

    fn listed(sequence: u64) -> Listed {
        let snapshot = snapshot(sequence);
        let key = Key {
            place: Place::of(&task()),
            id: snapshot.capture.id,
        };
        Listed::of(&snapshot, &key, 100)
    }

    fn sequences(index: &Index) -> Vec<u64> {
        index.snapshots.iter().map(|entry| entry.sequence).collect()
    }

    #[test]
    fn entries_are_in_order_whatever_the_order_of_arrival() {
        let mut index = Index::rebuilt("a", vec![listed(10), listed(2)]).unwrap();
        index.add(listed(3));
        index.add(listed(2));
        assert_eq!(sequences(&index), [2, 3, 10]);
        assert_eq!(index.next_sequence(), 11);
    }

    #[test]
    fn the_newest_snapshot_says_who_collects() {
        let mut index = Index::rebuilt("a", vec![listed(10)]).unwrap();
        let (mut older, mut newer) = (listed(9), listed(11));
        older.collector_version = "older".to_owned();
        newer.collector_version = "newer".to_owned();
        index.add(older);
        assert_eq!(index.collector_version, "0.1.0");
        index.add(newer);
        assert_eq!(index.collector_version, "newer");
        assert_eq!(index.boot_id.as_deref(), Some("b0"));
    }

    #[test]
    fn merging_keeps_what_either_has() {
        let mut index = Index::empty(task(), "a".to_owned(), Vec::new());
        index.merge(Index::rebuilt("a", vec![listed(1)]).unwrap());
        index.merge(Index::rebuilt("a", vec![listed(0), listed(1)]).unwrap());
        assert_eq!(sequences(&index), [0, 1]);
        assert_eq!(index.collector_version, "0.1.0");
        assert_eq!(index.updated_at, listed(1).entry.completed_at);
    }

    #[test]
    fn nothing_gives_no_index() {
        assert_eq!(Index::rebuilt("a", Vec::new()), None);
        assert_eq!(
            Index::empty(task(), "a".to_owned(), Vec::new()).next_sequence(),
            0
        );
    }
}
