//! The list of a node's snapshots, so that reading need not open each: `index.json`.
//!
//! Compact JSON with sorted keys, not compressed, replaced whole. The names are those of `metaflow_pyspy`; `boot_id`,
//! `retired`, `root`, `sealed`, `findings` and `trigger` are ours and optional. It has the newest snapshots only: beyond
//! [`MOST_ENTRIES`] the older half moves into a segment (see `segment.rs`), so that it stays small for ever. Losing it
//! loses nothing: the reader builds it again from the segments and the snapshots.

use std::collections::{BTreeMap, BTreeSet};

use model::{ProcessId, SCHEMA_VERSION, Snapshot, SnapshotId, Task, Timestamp, Trigger};
use serde::{Deserialize, Serialize};

use crate::Key;

/// With more entries than this, about 100 kB, the older half is sealed: who reads the index alone sees more than a hundred
/// of the newest, and the shorter it is, the less it lacks before it is written again.
pub(crate) const MOST_ENTRIES: usize = 256;

/// The snapshots of one node in one attempt: the newest of them in the stored document, all in one that was read whole.
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
    /// What retention has deleted; absent where it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired: Option<Retired>,
    /// The task's main process, by the newest snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<ProcessId>,
    /// [`SCHEMA_VERSION`].
    pub schema_version: String,
    /// What was moved into segments; absent where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
    /// By sequence number, then by time.
    pub snapshots: Vec<IndexEntry>,
    /// The task.
    pub task: Task,
    /// When it was last replaced.
    pub updated_at: Timestamp,
}

/// The snapshots whose entries are in segments, together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// When the first of them was taken.
    pub first_at: Timestamp,
    /// The last of them, by sequence number.
    pub last: SnapshotId,
    /// How many segments there are.
    pub segments: u64,
    /// The size of their objects, bytes; without those that retention has deleted.
    pub size_bytes: u64,
    /// How many snapshots; without those that retention has deleted.
    pub snapshots: u64,
}

/// What retention has deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retired {
    /// How many objects of `samples/`, which go with the snapshots around them.
    #[serde(default, skip_serializing_if = "is_none")]
    pub samples: u64,
    /// The size of the objects of snapshots, bytes.
    pub size_bytes: u64,
    /// How many snapshots.
    pub snapshots: u64,
    /// The last of them, by sequence number. What is older and still there is what must not go.
    pub up_to: SnapshotId,
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
    /// How many findings it has, which cite it.
    #[serde(default, skip_serializing_if = "is_none")]
    pub findings: u64,
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
                findings: snapshot.findings.len() as u64,
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
            retired: None,
            root: None,
            schema_version: SCHEMA_VERSION.to_owned(),
            sealed: None,
            snapshots: Vec::new(),
            task,
            updated_at: Timestamp::from_microseconds(0).expect("1970 is within the range"),
        }
    }

    /// Returns the index of `listed`, as if it had been written after each; `None` for none.
    pub(crate) fn rebuilt(node: &str, listed: Vec<Listed>) -> Option<Self> {
        let newest = listed
            .iter()
            .max_by_key(|one| in_order(one.entry.capture_id))?;
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
            .is_none_or(|last| in_order(last.capture_id) <= in_order(listed.entry.capture_id));
        if is_newest {
            self.boot_id = listed.boot_id;
            self.collector_version = listed.collector_version;
            self.root = listed.root;
        }
        let last = self.snapshots.last().map(|last| last.capture_id);
        if is_newest && last != Some(listed.entry.capture_id) {
            self.snapshots.push(listed.entry);
        } else {
            self.adopt(vec![listed.entry]);
        }
    }

    /// Adds what another index of the same place has: an earlier collector's, or that of a second one. What that one has
    /// sealed or retired counts where it goes further.
    pub(crate) fn merge(&mut self, other: Self) {
        if self.snapshots.is_empty() {
            self.boot_id = other.boot_id;
            self.collector_version = other.collector_version;
            self.root = other.root;
        }
        self.evicted_count = self.evicted_count.max(other.evicted_count);
        self.updated_at = self.updated_at.max(other.updated_at);
        self.sealed = further(self.sealed, other.sealed, |sealed| in_order(sealed.last));
        self.retired = further(self.retired, other.retired, |retired| {
            in_order(retired.up_to)
        });
        self.adopt(other.snapshots);
    }

    /// Returns the older half of the entries where there are too many, as an index of their own.
    pub(crate) fn older_half(&self) -> Option<Self> {
        (self.snapshots.len() > MOST_ENTRIES).then(|| Self {
            retired: None,
            sealed: None,
            snapshots: self.snapshots[..MOST_ENTRIES / 2].to_vec(),
            ..self.clone()
        })
    }

    /// Returns it without its entries.
    pub(crate) fn without_entries(&self) -> Self {
        Self {
            snapshots: Vec::new(),
            ..self.clone()
        }
    }

    /// Forgets the entries of `segment`, which are stored in it now.
    pub(crate) fn seal(&mut self, segment: &Self) {
        let (Some(first), Some(last)) = (segment.snapshots.first(), segment.snapshots.last())
        else {
            return;
        };
        let before = self.sealed;
        self.sealed = Some(Sealed {
            first_at: before.map_or(first.started_at, |sealed| sealed.first_at),
            last: before
                .map(|sealed| sealed.last)
                .into_iter()
                .chain([last.capture_id])
                .max_by_key(|id| in_order(*id))
                .expect("one of them is there"),
            segments: before.map_or(0, |sealed| sealed.segments) + 1,
            size_bytes: before.map_or(0, |sealed| sealed.size_bytes) + segment.size_bytes(),
            snapshots: before.map_or(0, |sealed| sealed.snapshots) + segment.snapshots.len() as u64,
        });
        self.forget(&segment.ids());
    }

    /// Returns whether `id` comes after all that was sealed or retired.
    pub(crate) fn is_beyond_sealed(&self, id: SnapshotId) -> bool {
        let sealed = self.sealed.map(|sealed| sealed.last);
        let retired = self.retired.map(|retired| retired.up_to);
        let mut old = sealed.into_iter().chain(retired);
        old.all(|old| in_order(id) > in_order(old))
    }

    /// Drops the entries of `ids`.
    pub(crate) fn forget(&mut self, ids: &BTreeSet<SnapshotId>) {
        self.snapshots
            .retain(|entry| !ids.contains(&entry.capture_id));
    }

    /// Returns the snapshots that have an entry here.
    pub(crate) fn ids(&self) -> BTreeSet<SnapshotId> {
        self.snapshots
            .iter()
            .map(|entry| entry.capture_id)
            .collect()
    }

    fn size_bytes(&self) -> u64 {
        self.snapshots.iter().map(|entry| entry.size_bytes).sum()
    }

    fn adopt(&mut self, entries: Vec<IndexEntry>) {
        let known = std::mem::take(&mut self.snapshots);
        let by_order: BTreeMap<_, _> = known
            .into_iter()
            .chain(entries)
            .map(|entry| (in_order(entry.capture_id), entry))
            .collect();
        self.snapshots = by_order.into_values().collect();
    }

    /// Returns the sequence number after the highest.
    pub(crate) fn next_sequence(&self) -> u64 {
        let ids = self.snapshots.iter().map(|entry| entry.capture_id);
        let sealed = self.sealed.map(|sealed| sealed.last);
        let retired = self.retired.map(|retired| retired.up_to);
        let highest = ids.chain(sealed).chain(retired).map(|id| id.sequence).max();
        highest.map_or(0, |highest| highest.saturating_add(1))
    }
}

fn further<T>(ours: Option<T>, theirs: Option<T>, place: fn(&T) -> (u64, Timestamp)) -> Option<T> {
    ours.into_iter().chain(theirs).max_by_key(place)
}

/// By sequence number first: the wall clock may be set back during a run.
pub(crate) fn in_order(id: SnapshotId) -> (u64, Timestamp) {
    (id.sequence, id.stamp)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_none(count: &u64) -> bool {
    *count == 0
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
    fn the_older_half_is_sealed_beyond_the_limit_and_counted() {
        let mut index = Index::empty(task(), "a".to_owned(), Vec::new());
        for sequence in 0..MOST_ENTRIES as u64 {
            index.add(listed(sequence));
        }
        assert_eq!(index.older_half(), None);
        index.add(listed(256));
        let half = index.older_half().unwrap();
        assert_eq!(sequences(&half), (0..128).collect::<Vec<u64>>());
        index.seal(&half);
        assert_eq!(sequences(&index), (128..=256).collect::<Vec<u64>>());
        let sealed = index.sealed.unwrap();
        assert_eq!((sealed.segments, sealed.snapshots), (1, 128));
        assert_eq!((sealed.size_bytes, sealed.last.sequence), (12_800, 127));
        index.snapshots.clear();
        assert_eq!(index.next_sequence(), 128);
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
