//! The obituaries of a node, read back.

use std::time::Duration;

use model::{
    BetweenLooks, Ending, Obituary, ObituarySegment, ProcessId, Timestamp, Trigger, Unseen,
};
use monitor::Report;
use store::{Place, RecordKind, Store, StoreError};

use super::words::{MainEnd, is_notable, known_end, told_at, words};
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
    /// The place of the main process in the order of the ends.
    root_order: Option<u64>,
    /// When the task was told to end, as the newest snapshots say.
    told: Vec<Timestamp>,
}

/// A look at a signal may have to wait for the one before it.
const SINCE_SIGNAL: Duration = Duration::from_secs(1);

impl StoredEnds {
    /// Reads what the segments say of the task whose main process is `root`, one after the other, so that many take no more memory than a few.
    pub(crate) async fn read(
        store: &Store,
        place: &Place,
        root: ProcessId,
    ) -> Result<Self, StoreError> {
        let mut ends = Self::default();
        for key in store.records(place, RecordKind::Obituaries, None).await? {
            let segment: ObituarySegment = store.record(&key).await?;
            ends.unseen = segment.unseen;
            for obituary in segment.obituaries {
                if obituary.process == root {
                    ends.root_order = Some(obituary.order);
                }
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
        ends.told = told(store, place).await?;
        Ok(ends)
    }

    /// Returns what there is to say: the words of the end, or that all was well.
    pub(crate) fn lines(&self, report: &Report) -> Vec<String> {
        if report.running {
            return Vec::new();
        }
        let main = MainEnd {
            process: report.root,
            ending: known_end(Ending::Unknown, &self.notable, report.root),
            order: self.root_order,
            at: report.ended_at,
            told_at: report.ended_at.and_then(|at| told_at(&self.told, at)),
        };
        let mut lines = words(&self.notable, main, &self.unseen);
        if lines.is_empty() {
            lines.extend(self.in_all());
        }
        if self.unseen.orphans > 0 {
            let orphans = count(self.unseen.orphans, "orphan", "orphans");
            lines.push(format!("{orphans} more ended before anybody had looked"));
        }
        lines.extend(self.unseen.between_looks.as_ref().and_then(between_looks));
        lines
    }

    /// Returns how many were seen to end, where there was one.
    fn in_all(&self) -> Option<String> {
        let all = self.well + self.left_out + self.notable.len() as u64;
        let failed = self.notable.iter();
        let failed =
            failed.filter(|one| one.ending != Ending::Exited(0)).count() as u64 + self.left_out;
        let processes = count(all, "process was", "processes were");
        let how = if failed == 0 {
            "each with 0".to_owned()
        } else {
            format!("{failed} of them not with 0")
        };
        (all > 0).then(|| format!("{processes} seen to end, {how}"))
    }
}

/// `12 more processes began and ended between two looks, 3 of them not with 0`
fn between_looks(between: &BetweenLooks) -> Option<String> {
    let is_whole = between.gap.is_none();
    if is_whole && between.count == 0 {
        return None;
    }
    let failed = between.failed + between.killed.values().sum::<u64>();
    let how = match failed {
        0 => String::new(),
        failed => format!(", {failed} of them not with 0"),
    };
    let processes = count(between.count, "more process", "more processes");
    Some(match (is_whole, between.count) {
        (true, _) => format!("{processes} began and ended between two looks{how}"),
        (false, 0) => {
            "whether more processes began and ended between two looks is not known".to_owned()
        }
        (false, _) => format!("at least {processes} began and ended between two looks{how}"),
    })
}

/// Returns when the task was told to end, as its newest snapshots say; nothing where there is none.
async fn told(store: &Store, place: &Place) -> Result<Vec<Timestamp>, StoreError> {
    let index = match store.index(place).await {
        Ok(index) => index,
        Err(StoreError::NotFound { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let entries = index.snapshots.iter();
    let at_signal = entries.filter(|entry| entry.trigger == Some(Trigger::Signal));
    Ok(at_signal
        .map(|entry| entry.started_at.before(SINCE_SIGNAL))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Gap, GapCode};

    #[test]
    fn who_was_not_seen_is_told_as_far_as_it_is_known() {
        let told = |count, failed, is_whole: bool| {
            between_looks(&BetweenLooks {
                count,
                failed,
                gap: (!is_whole).then(|| Gap::new("between_looks", GapCode::Unsupported)),
                killed: [(9, 1)].into_iter().filter(|_| failed > 0).collect(),
            })
        };
        assert_eq!(told(0, 0, true), None);
        let all = "12 more processes began and ended between two looks";
        assert_eq!(told(12, 0, true).unwrap(), all);
        assert_eq!(
            told(12, 2, true).unwrap(),
            format!("{all}, 3 of them not with 0")
        );
        assert_eq!(
            told(1, 0, false).unwrap(),
            "at least 1 more process began and ended between two looks"
        );
        assert_eq!(
            told(0, 0, false).unwrap(),
            "whether more processes began and ended between two looks is not known"
        );
    }
}
