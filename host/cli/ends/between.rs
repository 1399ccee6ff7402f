//! Processes of the task that began and ended without anybody having looked, reaped by their own parent: all of them where the
//! kernel tells of births, else so many as the counters of parents prove.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capture::Scope;
use model::{BetweenLooks, Ending, Gap, GapCode, ProcessId};
use supervise::{Births, BirthsError, Born, Connector};
use tracing::debug;

use super::Ends;

/// A capture tells whom it has found when it is done; so long nobody is said to have been seen by none.
const LATE: Duration = Duration::from_mins(1);
/// A process began so long before its birth was told at most, and its beginning is rounded to ticks.
const BEFORE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_millis(20);

/// Who began and ended between two looks, as far as it is known.
#[derive(Debug)]
pub(super) struct Between {
    account: Mutex<Account>,
    /// What the counters of parents prove.
    scope: Scope,
}

#[derive(Debug, Default)]
struct Account {
    births: Option<Births>,
    counted: BetweenLooks,
    /// Orphans that were counted before anybody had an account of them, by PID.
    early: Vec<i32>,
    why_not: Option<Gap>,
}

impl Between {
    pub(super) fn of(scope: &Scope) -> Self {
        Self {
            account: Mutex::default(),
            scope: scope.clone(),
        }
    }

    /// Notes that somebody has seen the process `pid`.
    pub(super) fn seen(&self, pid: i32) {
        if let Some(births) = self.births() {
            births.adopt(pid);
        }
    }

    /// Notes orphans that are counted already.
    pub(super) fn leave_out(&self, orphans: Vec<i32>) {
        self.lock().early.extend(orphans);
    }

    /// Returns what is known up to now.
    pub(super) fn so_far(&self) -> BetweenLooks {
        // Whoever hands over holds those locks the other way round.
        let trouble = self.births().and_then(|births| births.trouble());
        let account = self.lock();
        let gap = trouble.map(|it| gap(&it)).or(account.why_not.clone());
        let proved = gap.as_ref().map_or(0, |_| self.scope.reaped_unseen());
        BetweenLooks {
            count: account.counted.count.max(proved),
            gap,
            ..account.counted.clone()
        }
    }

    fn births(&self) -> Option<Births> {
        self.lock().births.clone()
    }

    fn count(&self, born: &Born) {
        let mut account = self.lock();
        if let Some(place) = account.early.iter().position(|&pid| pid == born.pid) {
            account.early.swap_remove(place);
            return;
        }
        let counted = &mut account.counted;
        counted.count += 1;
        match born.ending {
            Ending::Killed { signal, .. } => *counted.killed.entry(signal).or_default() += 1,
            Ending::Exited(0) | Ending::Unknown => {}
            Ending::Exited(_) => counted.failed += 1,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ends {
    /// Has births counted, as `connector` tells them.
    pub(crate) fn follow_births(&self, connector: Result<Connector, BirthsError>) {
        let between = &self.0.between;
        if !self.0.machine.numbers_as_for_us() {
            let detail =
                "--proc-root shows PIDs that are not those of taskscope's own PID namespace";
            between.lock().why_not = Some(with_words(GapCode::Unsupported, detail));
            return;
        }
        let root = between.scope.root();
        let births = connector.map(|connector| connector.follow(root.pid));
        let started = births.and_then(|births| {
            between.lock().births = Some(births.clone());
            // Who is there already is known before the kernel tells of their children.
            self.look();
            births.start().map_err(BirthsError::Refused)
        });
        if let Err(error) = started {
            debug!(%error, "Who begins and ends between two looks is not all counted.");
            let mut account = between.lock();
            account.births = None;
            account.why_not = Some(gap(&error));
        }
    }

    /// Counts those that have ended for a while and that nobody has seen.
    pub(super) fn count_births(&self) {
        self.settle_births(LATE);
    }

    /// Counts all that have ended and that nobody has seen.
    pub(super) fn count_last_births(&self) {
        self.settle_births(Duration::ZERO);
        let Some(births) = self.0.between.births() else {
            return;
        };
        // The end of a process can be seen a moment before it is told.
        let unended = births.unended().into_iter();
        for born in unended.filter(|born| !self.was_seen(born) && !self.lives(born)) {
            self.0.between.count(&born);
        }
    }

    fn settle_births(&self, age: Duration) {
        let Some(births) = self.0.between.births() else {
            return;
        };
        births.settle(age, |born| {
            if self.was_seen(born) {
                return self.0.machine.identify(born.pid).is_err();
            }
            self.0.between.count(born);
            true
        });
    }

    /// Returns how the kernel told that a process ended, and how long ago that was.
    pub(super) fn told_by_kernel(&self, process: ProcessId) -> Option<(Ending, Duration)> {
        let births = self.0.between.births()?;
        let born = births.ended(process.pid, |born| {
            // One whose birth was not told was seen before, and nobody has got its number since.
            self.ticks(born)
                .is_none_or(|(first, last)| (first..=last).contains(&process.start_time_ticks))
        })?;
        Some((born.ending, born.ended_ago()?))
    }

    /// Whether there is an account of it, or will be.
    fn was_seen(&self, born: &Born) -> bool {
        let Some((first, last)) = self.ticks(born) else {
            return true;
        };
        self.lock().knows(born.pid, first, last)
    }

    fn lives(&self, born: &Born) -> bool {
        let process = self.0.machine.identify(born.pid).ok();
        let range = self.ticks(born);
        process.zip(range).is_some_and(|(process, (first, last))| {
            (first..=last).contains(&process.start_time_ticks)
        })
    }

    /// Returns between which ticks since boot it began.
    fn ticks(&self, born: &Born) -> Option<(u64, u64)> {
        let forked = born.since_boot()?;
        let ticks = |at: Duration| {
            let per_second = u128::from(self.0.machine.clock_ticks_per_second());
            u64::try_from(at.as_nanos() * per_second / 1_000_000_000).unwrap_or(u64::MAX)
        };
        Some((ticks(forked.saturating_sub(BEFORE)), ticks(forked + AFTER)))
    }
}

fn gap(error: &BirthsError) -> Gap {
    let code = match error {
        BirthsError::NoAnswer | BirthsError::Refused(_) => GapCode::Unsupported,
        BirthsError::Overrun => GapCode::Truncated,
        BirthsError::TooMany => GapCode::Skipped,
    };
    let gap = with_words(code, &error.to_string());
    if code == GapCode::Unsupported {
        return gap.with_remedy(
            "Linux 6.6 or later, in the first PID and user namespace and network of the machine: of a container, \
             `docker run --pid=host --network=host`",
        );
    }
    gap
}

fn with_words(code: GapCode, why: &str) -> Gap {
    Gap::new("between_looks", code).with_detail(format!(
        "{why}; what is counted are children that the counters of their parents prove"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between() -> Between {
        let root = ProcessId {
            pid: 7,
            start_time_ticks: 1,
        };
        Between::of(&Scope::tree(root, None))
    }

    fn born(pid: i32, status: i32) -> Born {
        Born {
            pid,
            forked: Some(Duration::from_secs(9)),
            ended: Some(Duration::from_secs(9)),
            ending: Ending::from_wait_status(status),
        }
    }

    #[test]
    fn who_was_not_seen_is_counted_by_how_it_ended() {
        let between = between();
        between.leave_out(vec![21]);
        for (pid, status) in [
            (20, 0),
            (21, 0x700),
            (21, 0x700),
            (22, 9),
            (23, 0x89),
            (24, 0x7f),
        ] {
            between.count(&born(pid, status));
        }
        let told = between.so_far();
        assert_eq!((told.count, told.failed), (5, 1), "an early orphan once");
        assert_eq!(told.killed, [(9, 2)].into());
        assert_eq!(told.gap, None);
    }

    #[test]
    fn why_there_may_be_more_is_said_with_what_would_help() {
        let gap = gap(&BirthsError::NoAnswer);
        assert_eq!(gap.code, GapCode::Unsupported);
        assert!(gap.remedy.unwrap().contains("--pid=host"));
        let gap = super::gap(&BirthsError::TooMany);
        assert_eq!((gap.code, gap.remedy), (GapCode::Skipped, None));
        assert!(
            gap.detail
                .unwrap()
                .starts_with("the processes of this machine")
        );
    }
}
