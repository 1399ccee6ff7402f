//! Who descends from the task, and who of them has ended: pure, from what the kernel tells in its order.

use std::collections::HashMap;
use std::time::Duration;

use model::Ending;

use super::message::Event;

/// So many are known at a time.
const MOST: usize = 1 << 17;
/// Of more than so many, those that have ended are settled at once.
const MANY: usize = MOST / 2;

/// A process of the task of which the kernel has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Born {
    /// Its PID.
    pub pid: i32,
    /// When it was forked, by `CLOCK_MONOTONIC`; absent where its birth was not told, because somebody had seen it before.
    pub forked: Option<Duration>,
    /// When it ended, by `CLOCK_MONOTONIC`; absent where no end was told.
    pub ended: Option<Duration>,
    /// How it ended; unknown where no end was told.
    pub ending: Ending,
}

/// The processes of the task, by PID.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    processes: HashMap<i32, Process>,
    /// Those whose PID was given to another before they were settled.
    replaced: Vec<Born>,
}

#[derive(Clone, Copy, Debug)]
struct Process {
    /// Since when we know of it.
    known: Duration,
    /// Whether its birth was told.
    is_born: bool,
    ended: Option<(Duration, Ending)>,
}

impl Process {
    fn born(self, pid: i32) -> Born {
        Born {
            pid,
            forked: self.is_born.then_some(self.known),
            ended: self.ended.map(|(at, _)| at),
            ending: self.ended.map_or(Ending::Unknown, |(_, ending)| ending),
        }
    }
}

impl Lineage {
    /// Notes that `pid` is one of the task's; `now` is the present.
    pub(super) fn adopt(&mut self, pid: i32, now: Duration) {
        self.processes.entry(pid).or_insert(Process {
            known: now,
            is_born: false,
            ended: None,
        });
    }

    /// Notes what was told next. Returns false where there is no room for one more.
    pub(super) fn note(&mut self, event: Event) -> bool {
        match event {
            Event::Fork { parent, child, at } => return self.forked(parent, child, at),
            Event::Exit { pid, status, at } => {
                if let Some(process) = self.processes.get_mut(&pid) {
                    process.ended = Some((at, Ending::from_wait_status(status)));
                }
            }
            Event::Answer { .. } | Event::Other => {}
        }
        true
    }

    fn forked(&mut self, parent: i32, child: i32, at: Duration) -> bool {
        let parent = self.processes.get_mut(&parent);
        let is_ours = parent.is_some();
        if let Some(parent) = parent {
            // Where its first thread had ended another goes on.
            parent.ended = None;
        }
        if let Some(before) = self.processes.get_mut(&child) {
            if !before.is_born && before.ended.is_none() && before.known >= at {
                // Its own birth, told after it was seen.
                (before.known, before.is_born) = (at, true);
                return true;
            }
            let replaced = before.born(child);
            self.processes.remove(&child);
            self.replaced.push(replaced);
        }
        let has_room = self.processes.len() < MOST;
        if is_ours && has_room {
            let process = Process {
                known: at,
                is_born: true,
                ended: None,
            };
            self.processes.insert(child, process);
        }
        !is_ours || has_room
    }

    /// Hands those over that ended before `before`, or where there are many all that have ended. `has_ended` says of each whether it
    /// is gone, and not its first thread alone; then it is forgotten.
    pub(super) fn settle(&mut self, before: Duration, mut has_ended: impl FnMut(&Born) -> bool) {
        for born in self.replaced.drain(..) {
            has_ended(&born);
        }
        let are_many = self.processes.len() > MANY;
        self.processes.retain(|&pid, process| {
            let is_due = process
                .ended
                .is_some_and(|(at, _)| are_many || at <= before);
            let is_gone = is_due && has_ended(&process.born(pid));
            if is_due && !is_gone {
                process.ended = None;
            }
            !is_gone
        });
    }

    /// Returns the one of number `pid` that `is_it` names, where its end was told and it was not handed over yet.
    pub(super) fn ended(&self, pid: i32, is_it: impl FnMut(&Born) -> bool) -> Option<Born> {
        let replaced = self.replaced.iter().copied().filter(|born| born.pid == pid);
        let present = self.processes.get(&pid).map(|process| process.born(pid));
        let mut told = replaced.chain(present).filter(|born| born.ended.is_some());
        told.find(is_it)
    }

    /// Returns those of which no end was told.
    pub(super) fn unended(&self) -> Vec<Born> {
        let living = self.processes.iter().filter(|(_, it)| it.ended.is_none());
        living.map(|(&pid, process)| process.born(pid)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    fn fork(second: u64, parent: i32, child: i32) -> Event {
        Event::Fork {
            parent,
            child,
            at: at(second),
        }
    }

    fn exit(second: u64, pid: i32, status: i32) -> Event {
        Event::Exit {
            pid,
            status,
            at: at(second),
        }
    }

    /// A task whose main process is 10, first known at second 5, and what was told.
    fn task<const N: usize>(events: [Event; N]) -> Lineage {
        let mut lineage = Lineage::default();
        lineage.adopt(10, at(5));
        for event in events {
            assert!(lineage.note(event));
        }
        lineage
    }

    /// Who has ended until `second`, by PID.
    fn ended(lineage: &mut Lineage, second: u64) -> Vec<(i32, Option<u64>, Ending)> {
        let mut all = Vec::new();
        lineage.settle(at(second), |born| {
            let forked = born.forked.map(|it| it.as_secs());
            all.push((born.pid, forked, born.ending));
            true
        });
        all.sort_by_key(|one| one.0);
        all
    }

    #[test]
    fn descendants_are_followed_and_strangers_are_not() {
        let mut lineage = task([
            // Its own birth comes late.
            fork(4, 1, 10),
            fork(6, 10, 20),
            fork(6, 20, 30),
            fork(6, 1, 40),
            fork(6, 40, 50),
            exit(7, 20, 0),
            exit(7, 40, 0),
            // An orphan by now, and still one of the task's.
            fork(8, 30, 60),
            exit(9, 60, 9),
        ]);
        let killed = Ending::from_wait_status(9);
        assert_eq!(
            ended(&mut lineage, 9),
            [(20, Some(6), Ending::Exited(0)), (60, Some(8), killed)]
        );
        let living = lineage.unended().into_iter().map(|born| born.pid);
        let mut living: Vec<i32> = living.collect();
        living.sort_unstable();
        assert_eq!(living, [10, 30]);
        assert!(ended(&mut lineage, 99).is_empty(), "each is told once");
    }

    #[test]
    fn a_number_that_is_given_again_is_another_process() {
        let mut lineage = task([
            fork(6, 10, 20),
            exit(6, 20, 0x100),
            fork(7, 10, 20),
            exit(7, 20, 0x200),
            fork(8, 1, 20),
            fork(8, 20, 30),
            exit(9, 30, 0),
            // Of the main one too, after we have missed its end.
            fork(9, 1, 10),
            fork(9, 10, 40),
        ]);
        assert_eq!(
            ended(&mut lineage, 5),
            [
                (10, None, Ending::Unknown),
                (20, Some(6), Ending::Exited(1)),
                (20, Some(7), Ending::Exited(2))
            ]
        );
        assert!(lineage.unended().is_empty());
    }

    #[test]
    fn how_one_ended_is_known_until_it_is_handed_over_whoever_has_its_number() {
        let mut lineage = task([
            fork(6, 10, 20),
            exit(7, 20, 0x100),
            fork(8, 10, 20),
            exit(9, 20, 0x200),
        ]);
        let end = |lineage: &Lineage, forked| {
            let told = lineage.ended(20, |born| born.forked == Some(at(forked)));
            told.map(|born| (born.ended, born.ending))
        };
        assert_eq!(end(&lineage, 6), Some((Some(at(7)), Ending::Exited(1))));
        assert_eq!(end(&lineage, 8), Some((Some(at(9)), Ending::Exited(2))));
        assert_eq!(end(&lineage, 5), None);
        assert_eq!(lineage.ended(10, |_| true), None, "it lives");
        ended(&mut lineage, 9);
        assert_eq!(end(&lineage, 6).or(end(&lineage, 8)), None);
    }

    #[test]
    fn a_birth_that_is_told_after_somebody_has_seen_the_process_counts() {
        let mut lineage = task([]);
        lineage.adopt(20, at(8));
        assert!(lineage.note(fork(7, 10, 20)));
        assert!(lineage.note(exit(9, 20, 0x300)));
        let expected = [(20, Some(7), Ending::Exited(3))];
        assert_eq!(ended(&mut lineage, 9), expected);
    }

    #[test]
    fn a_process_goes_on_after_its_first_thread() {
        let mut lineage = task([fork(6, 10, 20), exit(7, 20, 0)]);
        lineage.settle(at(8), |_| false);
        assert!(lineage.note(fork(9, 20, 30)));
        assert!(ended(&mut lineage, 99).is_empty());
        assert!(lineage.note(exit(10, 20, 0x500)));
        assert!(lineage.note(fork(11, 20, 40)), "by another thread");
        assert!(ended(&mut lineage, 99).is_empty());
    }

    #[test]
    fn of_very_many_none_waits_and_no_more_are_taken_than_there_is_room_for() {
        let mut lineage = task([]);
        let most = i32::try_from(MOST).unwrap();
        let told = (100..).take(MOST).map(|pid| {
            let has_room = lineage.note(fork(6, 10, pid));
            lineage.note(exit(6, pid, 0));
            has_room
        });
        let missed = told.filter(|has_room| !has_room).count();
        assert_eq!(missed, 1, "the main process is one");
        assert_eq!(ended(&mut lineage, 0).len(), MOST - 1);
        assert!(lineage.note(fork(7, 10, 100 + most)));
    }
}
