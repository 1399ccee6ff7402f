//! Two sets of ranks at one instant: who is meant, and their stacks laid over each other.

use std::collections::BTreeSet;

use model::Snapshot;

use super::{Comparison, Merged, Selection};
use crate::ranges::RankSet;
use crate::ranks::ranks_of;

/// The ranks of either set, as far as the snapshots show them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwoSets {
    /// The one, in order.
    pub one: Vec<u64>,
    /// The other, in order.
    pub other: Vec<u64>,
    /// All ranks that there are.
    pub there: BTreeSet<u64>,
}

impl TwoSets {
    /// Returns who of the ranks that `snapshots` show is one of `ranks`, and who is one of `against`; where that is not said, all
    /// who are not one of `ranks`. Either may be nobody.
    pub fn of(snapshots: &[&Snapshot], ranks: &RankSet, against: Option<&RankSet>) -> Self {
        let there: BTreeSet<u64> = snapshots.iter().flat_map(|it| ranks_of(it)).collect();
        let is_other = |rank: u64| against.map_or_else(|| !ranks.has(rank), |it| it.has(rank));
        let (one, other) = (
            there.iter().copied().filter(|it| ranks.has(*it)).collect(),
            there.iter().copied().filter(|it| is_other(*it)).collect(),
        );
        Self { one, other, there }
    }

    /// Lays their stacks over each other; of `selection` all but its ranks counts.
    pub fn compared(&self, snapshots: &[&Snapshot], selection: &Selection) -> Comparison {
        let merged = |ranks: &[u64]| {
            let ranks = Some(ranks.iter().copied().collect());
            Merged::of(
                snapshots,
                &Selection {
                    ranks,
                    ..selection.clone()
                },
            )
        };
        Comparison::of(&merged(&self.one), &merged(&self.other))
    }
}
