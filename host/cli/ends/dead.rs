//! Who has ended, lest a look that began before their end takes them for new.

use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use model::ProcessId;

/// So many are remembered, and who ended first is forgotten first: PIDs are given again and again, so that their order tells nothing.
const MOST: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Dead {
    in_order: VecDeque<ProcessId>,
    known: BTreeSet<ProcessId>,
}

impl Dead {
    pub(super) fn contains(&self, process: ProcessId) -> bool {
        self.known.contains(&process)
    }

    /// Whether one of them is in `range`.
    pub(super) fn has_any_in(&self, range: RangeInclusive<ProcessId>) -> bool {
        self.known.range(range).next().is_some()
    }

    /// Remembers one that has ended now.
    pub(super) fn bury(&mut self, process: ProcessId) {
        if !self.known.insert(process) {
            return;
        }
        self.in_order.push_back(process);
        if self.in_order.len() > MOST
            && let Some(first) = self.in_order.pop_front()
        {
            self.known.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ended_first_is_forgotten_first_whatever_the_numbers_are() {
        let mut dead = Dead::default();
        // Numbers begin anew again and again.
        let ended = (0..=MOST as u64).map(|order| ProcessId {
            pid: i32::try_from(32_767 - order % 32_468).unwrap(),
            start_time_ticks: order,
        });
        let ended: Vec<ProcessId> = ended.collect();
        for process in &ended {
            dead.bury(*process);
            dead.bury(*process);
        }
        assert!(!dead.contains(ended[0]));
        assert!(ended[1..].iter().all(|process| dead.contains(*process)));
    }
}
