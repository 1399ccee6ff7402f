//! Whose shared memory is counted in this capture: it costs time by the page, so each process gets its turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use model::{Gap, GapCode, ProcessId};

/// Remembers who had the last turn.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<Option<ProcessId>>);

/// Who has a turn, and a gap for each who has none.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) now: BTreeSet<ProcessId>,
    pub(crate) later: BTreeMap<ProcessId, Gap>,
}

impl Turns {
    /// Chooses among `processes`, with the resident bytes of each, as many as fit into `budget` bytes. Those behind the last one of
    /// the capture before come first.
    pub(crate) fn choose(&self, processes: &[(ProcessId, u64)], budget: u64) -> Chosen {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = processes.partition_point(|&(id, _)| Some(id) <= *last);
        let mut chosen = Chosen::default();
        let (mut left, mut is_over) = (budget, false);
        for &(id, resident) in processes[start..].iter().chain(&processes[..start]) {
            if resident > budget {
                let detail = format!(
                    "its {} resident are over the limit of {}",
                    mebibytes(resident),
                    mebibytes(budget)
                );
                chosen.later.insert(id, skipped(id, detail));
                continue;
            }
            // The first that does not fit is the first of the next capture.
            is_over |= resident > left;
            if is_over {
                let detail = format!(
                    "its {} resident did not fit into the {} of this capture; its turn comes",
                    mebibytes(resident),
                    mebibytes(budget)
                );
                chosen.later.insert(id, skipped(id, detail));
            } else {
                left -= resident;
                *last = Some(id);
                chosen.now.insert(id);
            }
        }
        chosen
    }
}

fn skipped(id: ProcessId, detail: String) -> Gap {
    Gap::new("smaps_rollup", GapCode::Skipped)
        .of(id)
        .with_detail(detail)
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(pid: i32) -> ProcessId {
        ProcessId {
            pid,
            start_time_ticks: 1,
        }
    }

    fn pids(chosen: &Chosen) -> Vec<i32> {
        chosen.now.iter().map(|id| id.pid).collect()
    }

    #[test]
    fn every_process_gets_its_turn_and_a_large_one_none() {
        let processes = [
            (id(1), 40),
            (id(2), 40),
            (id(3), 101),
            (id(4), 40),
            (id(5), 20),
        ];
        let turns = Turns::default();
        let first = turns.choose(&processes, 100);
        assert_eq!(pids(&first), [1, 2]);
        let details: Vec<_> = first
            .later
            .values()
            .map(|gap| (gap.process.unwrap().pid, gap.code))
            .collect();
        assert_eq!(details, [3, 4, 5].map(|pid| (pid, GapCode::Skipped)));
        assert!(
            first.later[&id(3)]
                .detail
                .as_deref()
                .unwrap()
                .contains("over the limit")
        );
        assert_eq!(pids(&turns.choose(&processes, 100)), [1, 4, 5]);
        assert_eq!(pids(&turns.choose(&processes, 100)), [2, 4, 5]);
    }

    #[test]
    fn all_are_read_when_all_fit() {
        let processes = [(id(1), 40), (id(2), 60)];
        let turns = Turns::default();
        for _ in 0..3 {
            let chosen = turns.choose(&processes, 100);
            assert_eq!((pids(&chosen), chosen.later.len()), (vec![1, 2], 0));
        }
        assert_eq!(pids(&turns.choose(&[], 100)), [0; 0]);
    }

    #[test]
    fn who_had_the_last_turn_may_be_gone() {
        let turns = Turns::default();
        assert_eq!(pids(&turns.choose(&[(id(5), 1)], 1)), [5]);
        assert_eq!(pids(&turns.choose(&[(id(2), 1), (id(9), 1)], 1)), [9]);
        assert_eq!(pids(&turns.choose(&[(id(2), 1), (id(9), 1)], 1)), [2]);
    }
}
