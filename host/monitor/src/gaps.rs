//! What samples could not read, over the whole run: the gaps of the last one alone would say nothing of a process that has ended.

use std::collections::{BTreeMap, BTreeSet};

use model::{Gap, GapCode, ProcessId, Sample, Timestamp};
use serde::{Deserialize, Serialize};

/// So many things are told apart. Their names are ours, so there are few.
const MOST_THINGS: usize = 64;
/// So many processes are named with one.
const MOST_PROCESSES: usize = 5;

/// All gaps of one thing for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapTotal {
    /// When the last sample with it began.
    pub last_at: Timestamp,
    /// The newest of them: its words, and what to do about it.
    pub newest: Gap,
    /// The first processes that had it, at most five; none for what belongs to no process.
    #[serde(default)]
    pub processes: Vec<ProcessId>,
    /// How many samples had it.
    pub samples: u64,
}

/// The gaps by what is missing and why.
#[derive(Clone, Debug, Default)]
pub(crate) struct GapTotals(BTreeMap<(String, GapCode), GapTotal>);

impl GapTotals {
    /// Counts the gaps of a sample: each thing once, however many processes lack it.
    pub(crate) fn count(&mut self, sample: &Sample) {
        let mut counted = BTreeSet::new();
        for gap in &sample.gaps {
            let key = (gap.what.clone(), gap.code);
            let is_full = self.0.len() >= MOST_THINGS;
            if is_full && !self.0.contains_key(&key) {
                continue;
            }
            let total = self.0.entry(key).or_insert_with(|| GapTotal {
                last_at: sample.at,
                newest: gap.clone(),
                processes: Vec::new(),
                samples: 0,
            });
            total.samples += u64::from(counted.insert((&gap.what, gap.code)));
            total.last_at = sample.at;
            total.newest.clone_from(gap);
            let new = gap.process.filter(|it| !total.processes.contains(it));
            if total.processes.len() < MOST_PROCESSES {
                total.processes.extend(new);
            }
        }
    }

    /// Returns all, in the order of their names.
    pub(crate) fn list(&self) -> Vec<GapTotal> {
        self.0.values().cloned().collect()
    }
}
