//! What a capture costs in CPU time: ours and our helpers', by the clocks that the kernel keeps for each process.

use std::collections::BTreeMap;
use std::time::Duration;

use helper::Register;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// CPU time used so far.
#[derive(Clone, Debug)]
pub(crate) struct CpuClocks {
    helpers: BTreeMap<i32, Duration>,
    ours: Option<Duration>,
}

impl CpuClocks {
    /// Reads our own clock and those of the processes `helpers`.
    pub(crate) fn read(helpers: &[i32]) -> Self {
        let clock = |&pid: &i32| {
            let clock = clock_getcpuclockid(Pid::from_raw(pid)).ok()?;
            Some((pid, time(clock)?))
        };
        Self {
            helpers: helpers.iter().filter_map(clock).collect(),
            ours: time(ClockId::CLOCK_PROCESS_CPUTIME_ID),
        }
    }

    /// Returns what was used since `before`. A helper that is new counts whole, one that has ended not at all.
    pub(crate) fn since(&self, before: &Self) -> Option<Duration> {
        let ours = self.ours?.checked_sub(before.ours?)?;
        let helpers = self.helpers.iter().map(|(pid, &now)| {
            let then = before.helpers.get(pid).copied().unwrap_or_default();
            // Less than before: the PID is another helper's by now.
            now.checked_sub(then).unwrap_or(now)
        });
        Some(ours + helpers.sum::<Duration>())
    }
}

/// Adds up the CPU time of our process and its helpers, from the start of our process on. What a helper uses between the last
/// reading and its end is not seen, unless it told: a compiler of plugins does.
#[derive(Debug)]
pub struct Meter {
    helpers: Register,
    last: CpuClocks,
    /// How many helpers have told what they used.
    told: usize,
    total: Duration,
}

impl Meter {
    pub(crate) fn new(helpers: Register) -> Self {
        Self {
            helpers,
            last: CpuClocks {
                helpers: BTreeMap::new(),
                ours: Some(Duration::ZERO),
            },
            told: 0,
            total: Duration::ZERO,
        }
    }

    /// Returns all that was used so far; nothing where the kernel does not tell.
    pub fn read(&mut self) -> Option<Duration> {
        let helpers = self.helpers.hold();
        let mut now = CpuClocks::read(&helpers.pids());
        let told = helpers.used(self.told);
        self.told += told.len();
        now.helpers.extend(told.iter().copied());
        drop(helpers);
        self.total += now.since(&self.last)?;
        self.last = now;
        Some(self.total)
    }
}

/// CPU time that the calling thread has used.
pub(crate) fn of_thread() -> Option<Duration> {
    time(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn time(clock: ClockId) -> Option<Duration> {
    clock_gettime(clock).ok().map(Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks(ours: u64, helpers: &[(i32, u64)]) -> CpuClocks {
        CpuClocks {
            helpers: helpers
                .iter()
                .map(|&(pid, time)| (pid, Duration::from_millis(time)))
                .collect(),
            ours: Some(Duration::from_millis(ours)),
        }
    }

    #[test]
    fn helpers_count_with_what_they_used_since() {
        let before = clocks(100, &[(7, 50), (8, 10)]);
        let after = clocks(120, &[(7, 55), (9, 3), (8, 4)]);
        let used = after.since(&before).unwrap();
        assert_eq!(used, Duration::from_millis(20 + 5 + 3 + 4));
    }

    #[test]
    fn what_a_helper_told_before_its_end_counts_once() {
        let helpers = Register::default();
        let mut meter = Meter::new(helpers.clone());
        let mut sleep = std::process::Command::new("sleep");
        let (process, _) = helper::OwnProcess::start(sleep.arg("100"), &helpers).unwrap();
        let before = meter.read().unwrap();
        let hour = Duration::from_hours(1);
        helpers.note_used(process.pid(), hour);
        let mut more = || meter.read().unwrap().saturating_sub(before);
        assert!(
            more() > hour / 2,
            "it counts while the process is still there"
        );
        drop(process);
        assert!(more() < hour * 3 / 2, "and not again at its end");
    }

    #[test]
    fn work_of_ours_and_of_another_process_shows() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let before = CpuClocks::read(&[pid]);
        let enough = Duration::from_millis(20);
        let used = || CpuClocks::read(&[pid]).helpers[&pid].saturating_sub(before.helpers[&pid]);
        testkit::wait_until(testkit::DEADLINE, || used() > enough);
        let total = CpuClocks::read(&[pid]).since(&before).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(total > enough, "{total:?}");
        assert!(CpuClocks::read(&[pid]).helpers.is_empty());
    }
}
