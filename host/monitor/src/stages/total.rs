//! What all stages of one path came to: what stays of stages that nobody can keep whole.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Stage;
use crate::Statistics;

/// So many paths are told apart; stages of further ones are counted together.
pub(super) const MOST_TOTALS: usize = 1024;

/// The stages of one path that have ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageTotal {
    /// How many have ended.
    pub count: u64,
    /// How many of them ended with an error.
    #[serde(default)]
    pub errors: u64,
    /// The longest, seconds.
    pub max_seconds: f64,
    /// The shortest, seconds.
    pub min_seconds: f64,
    /// The names from the outermost stage to this one; empty for all stages of the paths beyond the 1,024 that are told apart.
    pub path: Vec<String>,
    /// What the samples within them come to, added up: peaks are the highest of any.
    #[serde(default)]
    pub statistics: Statistics,
    /// All of them added up, seconds. Stages that overlapped count each.
    pub total_seconds: f64,
}

/// Totals by path.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    by_path: BTreeMap<Vec<String>, StageTotal>,
    others: Option<StageTotal>,
}

impl Totals {
    /// Adds a stage that has ended.
    pub(super) fn add(&mut self, stage: &Stage) {
        let is_known = self.by_path.contains_key(&stage.path);
        if is_known || self.by_path.len() < MOST_TOTALS {
            let total = self.by_path.entry(stage.path.clone()).or_default();
            total.path.clone_from(&stage.path);
            total.add(stage);
        } else {
            self.others.get_or_insert_default().add(stage);
        }
    }

    /// Returns each, those that took longest in all first.
    pub(super) fn list(&self) -> Vec<StageTotal> {
        let all = self.by_path.values().chain(&self.others);
        let mut all: Vec<StageTotal> = all.cloned().collect();
        all.sort_by(|a, b| b.total_seconds.total_cmp(&a.total_seconds));
        all
    }
}

impl StageTotal {
    fn add(&mut self, stage: &Stage) {
        let seconds = stage.wall_seconds;
        self.min_seconds = if self.count == 0 {
            seconds
        } else {
            self.min_seconds.min(seconds)
        };
        self.max_seconds = self.max_seconds.max(seconds);
        self.total_seconds += seconds;
        self.count += 1;
        self.errors += u64::from(stage.error.is_some());
        self.statistics.merge(&stage.statistics);
    }
}
