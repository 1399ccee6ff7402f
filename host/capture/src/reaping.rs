//! That children were reaped whom no look has seen, proved by the counters of their parents.
//!
//! When a process takes the status of a child, the kernel adds the page faults of that child, which has had one at least, to those
//! that `/proc/PID/stat` of the parent counts for its reaped children (fields 11 and 13; `wait_task_zombie` in `kernel/exit.c`).
//! So a parent whose counters have grown between two looks has reaped a child; if it was none that any look has seen, it was one
//! that nobody has. That says "one at least" for each parent and pair of looks, and no more. Children whose parent ignores
//! SIGCHLD leave no such trace.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use model::ProcessId;

use crate::proc::Stat;

/// Who may have been reaped between two looks was seen by one of so many before the later one, or by another thread meanwhile.
const LOOKS: usize = 3;
/// So many are remembered. Where nobody takes samples nobody is forgotten, and nothing is counted either.
const MOST_SEEN: usize = 1 << 16;

/// Who was seen by any look, and how the counters of parents have grown from one look of the samples to the next.
#[derive(Debug, Default)]
pub(crate) struct Reaping {
    /// When the last looks of the samples began, the oldest first.
    began: Vec<Instant>,
    /// Faults of reaped children, at the last look of the samples.
    faults: BTreeMap<ProcessId, u64>,
    /// Whose counters have grown between the last two looks: judged by the next, which knows all that was seen until then.
    grown: Vec<ProcessId>,
    seen: BTreeMap<ProcessId, Seen>,
    unseen: u64,
}

#[derive(Debug)]
struct Seen {
    last: Instant,
    ppid: i32,
}

impl Reaping {
    /// Notes whom a look that began at `began` has found, zombies too, whoever looked.
    pub(crate) fn saw(&mut self, stats: &BTreeMap<ProcessId, Stat>, began: Instant) {
        if self.seen.len() >= MOST_SEEN {
            *self = Self {
                unseen: self.unseen,
                ..Self::default()
            };
        }
        for (&process, stat) in stats {
            let seen = self.seen.entry(process).or_insert(Seen {
                last: began,
                ppid: stat.ppid,
            });
            seen.last = seen.last.max(began);
            seen.ppid = stat.ppid;
        }
    }

    /// Compares with the look before: `stats` are all processes of the task, zombies too, as a look found them that began at
    /// `began`. To be called for looks that come one after the other.
    pub(crate) fn compare(&mut self, stats: &BTreeMap<ProcessId, Stat>, began: Instant) {
        self.judge(stats);
        let faults = |stat: &Stat| stat.child_minor_faults.zip(stat.child_major_faults);
        for (&process, stat) in stats {
            let Some((minor, major)) = faults(stat) else {
                continue;
            };
            let now = minor.saturating_add(major);
            let before = self.faults.insert(process, now);
            if before.is_some_and(|before| before < now) {
                self.grown.push(process);
            }
        }
        self.faults.retain(|process, _| stats.contains_key(process));
        self.began.push(began);
        if self.began.len() > LOOKS {
            self.began.remove(0);
        }
        let oldest = self.began[0];
        self.seen
            .retain(|process, seen| stats.contains_key(process) || seen.last >= oldest);
    }

    /// Returns how many children have been reaped unseen, at least.
    pub(crate) fn unseen(&self) -> u64 {
        self.unseen
    }

    /// Counts the parents that have reaped somebody, if nobody who was seen lately and is gone may be who that was: a child, or a
    /// child of somebody who is gone too, which may have been handed to any other.
    fn judge(&mut self, stats: &BTreeMap<ProcessId, Stat>) {
        let grown = std::mem::take(&mut self.grown);
        if grown.is_empty() {
            return;
        }
        let living: BTreeSet<i32> = stats.keys().map(|id| id.pid).collect();
        let gone = self.seen.iter().filter(|(id, _)| !stats.contains_key(id));
        let parents: BTreeSet<i32> = gone.map(|(_, seen)| seen.ppid).collect();
        if parents.is_subset(&living) {
            let unseen = grown.iter().filter(|it| !parents.contains(&it.pid));
            self.unseen += unseen.count() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::proc::stat;

    const PARENT: i32 = 10;

    /// A process with its parent, and the faults of the children that it has reaped.
    fn one(pid: i32, ppid: i32, faults: u64) -> (ProcessId, Stat) {
        let line = format!("{pid} (x) S {ppid} 1 1 0 0 0 5 {faults} 0 0 1 1 0 0 20 0 1 0 77");
        let stat = stat::parse(line.as_bytes()).unwrap();
        (crate::discover::identity(&stat), stat)
    }

    /// Looks of samples, a second apart; returns how many were reaped unseen, at least, after each.
    fn counted<const N: usize>(looks: [&[(i32, i32, u64)]; N]) -> [u64; N] {
        let mut reaping = Reaping::default();
        let start = Instant::now();
        let mut second = 0;
        looks.map(|look| {
            let began = start + Duration::from_secs(second);
            second += 1;
            let stats = look
                .iter()
                .map(|&(pid, ppid, faults)| one(pid, ppid, faults));
            let stats = stats.collect();
            reaping.saw(&stats, began);
            reaping.compare(&stats, began);
            reaping.unseen()
        })
    }

    #[test]
    fn a_parent_whose_counters_grow_without_a_child_that_was_seen_has_reaped_one_that_was_not() {
        // What was reaped before the first look is not asked for; each growth is judged by the look after it.
        let parent = |faults| (PARENT, 1, faults);
        assert_eq!(
            counted([
                &[parent(50)],
                &[parent(50)],
                &[parent(90)],
                &[parent(300)],
                &[parent(300)],
                &[parent(300)]
            ]),
            [0, 0, 0, 1, 2, 2]
        );
    }

    #[test]
    fn who_was_seen_may_be_why_the_counters_have_grown() {
        let (parent, child) = (|faults| (PARENT, 1, faults), (20, PARENT, 0));
        let gone = counted([&[parent(0), child], &[parent(40)], &[parent(40)]]);
        assert_eq!(gone, [0, 0, 0]);
        // The counter was read after it was reaped, and it before that.
        let late = counted([&[parent(40), child], &[parent(80), child], &[parent(80)]]);
        assert_eq!(late, [0, 0, 0]);
        // A child that is still there is none that was reaped.
        let lives = counted([
            &[parent(0), child],
            &[parent(40), child],
            &[parent(40), child],
        ]);
        assert_eq!(lives, [0, 0, 1]);
        // Who was seen long ago, and is gone, is no reason any more.
        let looks = [
            parent(0),
            parent(9),
            parent(9),
            parent(9),
            parent(50),
            parent(50),
        ];
        let mut all: Vec<Vec<_>> = looks.iter().map(|&one| vec![one]).collect();
        all[0].push(child);
        let all: Vec<&[_]> = all.iter().map(Vec::as_slice).collect();
        assert_eq!(counted::<6>(all.try_into().unwrap()), [0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn an_orphan_that_was_handed_to_another_may_be_why_its_counters_have_grown() {
        let (parent, child, orphan) = (|faults| (PARENT, 1, faults), (20, PARENT, 0), (30, 20, 0));
        let looks = counted([
            &[parent(0), child, orphan],
            &[parent(0), child, orphan],
            &[parent(70)],
            &[parent(70)],
        ]);
        assert_eq!(looks, [0; 4]);
    }

    #[test]
    fn whom_another_thread_has_seen_is_seen() {
        let mut reaping = Reaping::default();
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let alone = |faults| BTreeMap::from([one(PARENT, 1, faults)]);
        reaping.compare(&alone(0), at(0));
        let mut both = alone(0);
        both.extend([one(20, PARENT, 0)]);
        reaping.saw(&both, at(0) + Duration::from_millis(500));
        reaping.compare(&alone(30), at(1));
        reaping.compare(&alone(30), at(2));
        assert_eq!(reaping.unseen(), 0);
    }
}
