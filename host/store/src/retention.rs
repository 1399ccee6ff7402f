//! Which snapshots of a node are deleted: the oldest, beyond a number, an age or a size. Off unless it is set.
//!
//! Never the newest, and never one that has findings or that an obituary names, because those cite it. What is decided here is pure; the index
//! carries it out and counts it.

use std::collections::BTreeSet;
use std::time::Duration;

use model::{SnapshotId, Timestamp};

use crate::index::IndexEntry;

/// How much of what one collector has stored of its node in its attempt is kept. Nothing set keeps everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Up to this age.
    pub age: Option<Duration>,
    /// Up to this size of all objects together, bytes.
    pub size_bytes: Option<u64>,
    /// Up to this number.
    pub snapshots: Option<u64>,
}

/// What is there, all in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) size_bytes: u64,
    pub(crate) snapshots: u64,
}

impl Retention {
    pub(crate) fn is_off(&self) -> bool {
        *self == Self::default()
    }

    /// Returns how many of `oldest`, which are in order, are too much; those that are cited, by findings or because they
    /// are in `cited`, stay all the same.
    pub(crate) fn surplus(
        &self,
        oldest: &[IndexEntry],
        cited: &BTreeSet<SnapshotId>,
        held: Held,
        now: Timestamp,
    ) -> usize {
        let mut held = held;
        for (position, entry) in oldest.iter().enumerate() {
            let too_many = self.snapshots.is_some_and(|most| held.snapshots > most);
            let too_large = self.size_bytes.is_some_and(|most| held.size_bytes > most);
            let age = now.since(entry.started_at);
            let too_old = self.age.is_some_and(|most| age > most);
            if !(too_many || too_large || too_old) {
                return position;
            }
            if goes(entry, cited) {
                held.snapshots = held.snapshots.saturating_sub(1);
                held.size_bytes = held.size_bytes.saturating_sub(entry.size_bytes);
            }
        }
        oldest.len()
    }
}

/// Returns whether a snapshot that is too much is deleted: one that nothing cites.
pub(crate) fn goes(entry: &IndexEntry, cited: &BTreeSet<SnapshotId>) -> bool {
    entry.findings == 0 && !cited.contains(&entry.capture_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Listed;
    use crate::sample::{snapshot, task, time};
    use crate::{Key, Place};

    fn entries(findings: [u64; 4]) -> Vec<IndexEntry> {
        let entry = |(sequence, findings)| {
            let snapshot = snapshot(sequence);
            let key = Key {
                place: Place::of(&task()),
                id: snapshot.capture.id,
            };
            let mut entry = Listed::of(&snapshot, &key, 100).entry;
            entry.findings = findings;
            entry
        };
        (0..).zip(findings).map(entry).collect()
    }

    fn surplus(retention: Retention, findings: [u64; 4]) -> usize {
        let held = Held {
            size_bytes: 500,
            snapshots: 5,
        };
        retention.surplus(&entries(findings), &BTreeSet::new(), held, time(10))
    }

    #[test]
    fn the_oldest_are_too_much_by_number_age_or_size() {
        let off = Retention::default();
        assert_eq!(surplus(off, [0; 4]), 0);
        let by_number = Retention {
            snapshots: Some(3),
            ..off
        };
        assert_eq!(surplus(by_number, [0; 4]), 2);
        let by_size = Retention {
            size_bytes: Some(150),
            ..off
        };
        assert_eq!(surplus(by_size, [0; 4]), 4);
        let age = Some(Duration::from_secs(7));
        let by_age = Retention { age, ..off };
        assert_eq!(surplus(by_age, [0; 4]), 3);
    }

    #[test]
    fn one_that_is_cited_does_not_count_as_gone() {
        let by_number = Retention {
            snapshots: Some(3),
            ..Retention::default()
        };
        assert_eq!(surplus(by_number, [1, 0, 0, 0]), 3);
        assert_eq!(surplus(by_number, [1; 4]), 4);
        let held = Held {
            size_bytes: 500,
            snapshots: 5,
        };
        let cited = BTreeSet::from([snapshot(1).capture.id]);
        let found = by_number.surplus(&entries([0; 4]), &cited, held, time(10));
        assert_eq!(found, 3);
    }
}
