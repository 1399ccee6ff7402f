//! The obituaries of a node, read back.

use model::{Ending, Obituary, ObituarySegment, Unseen};
use monitor::Report;
use store::{Place, RecordKind, Store, StoreError};

use super::words::{is_notable, known_end, words};
use crate::page::count;

/// So many that are notable are kept; the first ones are the causes.
const MOST_KEPT: usize = 4096;

/// What obituaries of one node and attempt say.
#[derive(Debug, Default)]
pub(crate) struct StoredEnds {
    /// Those of ranks, and those that were not an exit with 0, in the order of the ends.
    pub(crate) notable: Vec<Obituary>,
    /// How many more that are notable there were.
    pub(crate) left_out: u64,
    /// How the newest segment counts what has none.
    pub(crate) unseen: Unseen,
    /// How many others exited with 0.
    pub(crate) well: u64,
}

impl StoredEnds {
    /// Reads the segments one after the other, so that many take no more memory than a few.
    pub(crate) async fn read(store: &Store, place: &Place) -> Result<Self, StoreError> {
        let mut ends = Self::default();
        for key in store.records(place, RecordKind::Obituaries, None).await? {
            let segment: ObituarySegment = store.record(&key).await?;
            ends.unseen = segment.unseen;
            for obituary in segment.obituaries {
                if !is_notable(&obituary) {
                    ends.well += 1;
                } else if ends.notable.len() < MOST_KEPT {
                    ends.notable.push(obituary);
                } else {
                    ends.left_out += 1;
                }
            }
        }
        // Two collectors, one after the other, count from 0 each.
        ends.notable.sort_by_key(|one| (one.ended_at, one.order));
        Ok(ends)
    }

    /// Returns what there is to say: the words of the end, or that all was well.
    pub(crate) fn lines(&self, report: &Report) -> Vec<String> {
        if report.running {
            return Vec::new();
        }
        let main = known_end(Ending::Unknown, &self.notable, report.root);
        let lines = words(&self.notable, report.root, main, self.unseen);
        let all = self.well + self.left_out + self.notable.len() as u64;
        if !lines.is_empty() || all == 0 {
            return lines;
        }
        let failed = self.notable.iter();
        let failed =
            failed.filter(|one| one.ending != Ending::Exited(0)).count() as u64 + self.left_out;
        let processes = count(all, "process was", "processes were");
        vec![if failed == 0 {
            format!("{processes} seen to end, each with 0")
        } else {
            format!("{processes} seen to end, {failed} of them not with 0")
        }]
    }
}
