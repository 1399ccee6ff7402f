//! Samples tell when a process that was at work has come to a stand, long before the next snapshot where intervals are long.
//! That proves nothing: it says when a closer look is worth while.

use std::collections::HashMap;
use std::time::Duration;

use model::{ProcessId, Sample};

use crate::case::LONGEST_PATIENCE;
use crate::live::Tuning;

/// Looks of one series: the first when a process has stood still for a sixth of the patience, the last when it has for all of
/// it, so that a window of them lies within.
const LOOKS: u32 = 4;
const FIRST: f64 = 1.0 / 6.0;
/// A series that comes to nothing makes the next one later, twice as late each time.
const FIRST_REST: Duration = Duration::from_mins(2);
const LONGEST_REST: Duration = Duration::from_hours(1);
/// So often a process has given up its processor before it counts as one that is at work.
const LIVELY: u32 = 3;

/// Watches the samples of a task.
#[derive(Clone, Debug)]
pub struct Stillness {
    /// So long stands still what is worth a look, seconds, …
    first: f64,
    /// … and so long it is to the next one.
    between: f64,
    processes: HashMap<ProcessId, Process>,
    /// The series under way: looks that were taken, and when the next is due.
    series: Option<(u32, f64)>,
    /// When the next series may begin, and how much later the one after it.
    rested: f64,
    rest: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Process {
    switches: u64,
    /// Samples in which it had given up its processor, ...
    changes: u32,
    /// ... the last of them, in seconds since the start.
    changed: f64,
    /// Whether it is what the last series was about.
    is_looked_at: bool,
}

impl Stillness {
    /// Begins to watch.
    pub fn new(tuning: Tuning) -> Self {
        let patience = tuning.patience.unwrap_or(LONGEST_PATIENCE);
        let first = patience.mul_f64(FIRST);
        let between = patience.saturating_sub(first) / (LOOKS - 1);
        Self {
            first: first.as_secs_f64(),
            // Cut rather than rounded: the last is not to come after the patience.
            between: between.as_secs_f64() - 1e-6,
            processes: HashMap::new(),
            series: None,
            rested: 0.0,
            rest: FIRST_REST,
        }
    }

    /// Notes a sample; returns whether to take a snapshot now.
    pub fn note(&mut self, sample: &Sample) -> bool {
        let now = sample.elapsed_seconds;
        self.follow(sample, now);
        let is_still = |it: &Process| it.changes >= LIVELY && now - it.changed >= self.first;
        // Where none was ever at work, a start that hangs is as still.
        let is_stuck = |it: &Process| now - it.changed >= self.first;
        let none_is_lively = self.processes.values().all(|it| it.changes < LIVELY);
        let counts = |it: &Process| is_still(it) || (none_is_lively && is_stuck(it));
        if let Some((looks, due)) = self.series {
            if !self
                .processes
                .values()
                .any(|it| it.is_looked_at && counts(it))
            {
                // It goes on: the series came to nothing.
                self.series = None;
                return false;
            }
            if now < due {
                return false;
            }
            self.series = (looks + 1 < LOOKS).then_some((looks + 1, due + self.between));
            return true;
        }
        let all_stand = self.processes.values().all(is_stuck);
        let is_new = self
            .processes
            .values()
            .any(|it| counts(it) && !it.is_looked_at);
        if !is_new || now < self.rested || (none_is_lively && !all_stand) {
            return false;
        }
        for process in self.processes.values_mut() {
            process.is_looked_at = now - process.changed >= self.first;
        }
        self.rested = now + self.rest.as_secs_f64();
        self.rest = (self.rest * 2).min(LONGEST_REST);
        self.series = Some((1, now + self.between));
        true
    }

    fn follow(&mut self, sample: &Sample, now: f64) {
        let mut before = std::mem::take(&mut self.processes);
        for it in &sample.processes {
            // Switches that a process asks for: one that waits or works with others makes some all the time, one that
            // waits for good, or turns in a loop, makes none.
            let Some(switches) = it.voluntary_switches else {
                continue;
            };
            let mut process = before.remove(&it.identity).unwrap_or(Process {
                switches,
                changes: 0,
                changed: now,
                is_looked_at: false,
            });
            if process.switches != switches {
                process.switches = switches;
                process.changes = process.changes.saturating_add(1);
                process.changed = now;
                process.is_looked_at = false;
            }
            self.processes.insert(it.identity, process);
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{MachineSample, ProcessSample, Timestamp};

    use super::*;

    fn id(pid: i32) -> ProcessId {
        ProcessId {
            pid,
            start_time_ticks: 1,
        }
    }

    /// Returns the seconds at which a look is asked for, of samples a second apart in which these are the switches.
    fn looks(seconds: u32, switches: impl Fn(u32) -> Vec<u64>) -> Vec<u32> {
        let mut stillness = Stillness::new(Tuning::default());
        let mut sample = |second: u32| {
            let processes = (1..)
                .zip(switches(second))
                .map(|(pid, switches)| ProcessSample {
                    voluntary_switches: Some(switches),
                    ..ProcessSample::of(id(pid))
                });
            stillness.note(&Sample {
                at: Timestamp::from_microseconds(0).unwrap(),
                cgroup: None,
                cpu_ms: None,
                duration_ms: 0.0,
                elapsed_seconds: f64::from(second),
                gaps: Vec::new(),
                gpus: Vec::new(),
                machine: MachineSample::default(),
                processes: processes.collect(),
                root: id(1),
            })
        };
        (0..seconds).filter(|second| sample(*second)).collect()
    }

    #[test]
    fn one_that_was_at_work_and_stands_still_is_looked_at_within_a_minute_and_no_more() {
        let found = looks(1000, |second| {
            vec![0, u64::from(second.min(300)), u64::from(second)]
        });
        assert_eq!(found, [310, 327, 344, 360]);
    }

    #[test]
    fn a_start_that_hangs_is_looked_at_and_a_launcher_that_waits_is_not() {
        assert_eq!(looks(500, |_| vec![3, 4]), [10, 27, 44, 60]);
        assert_eq!(looks(500, |second| vec![3, u64::from(second)]), [0; 0]);
    }

    #[test]
    fn pauses_that_come_again_and_again_are_looked_at_less_and_less() {
        // A pause of 40 s every 100 s, for a day.
        let found = looks(86_400, |second| {
            vec![u64::from(second / 100 * 60 + (second % 100).min(60))]
        });
        assert!(found.len() < 80, "{}", found.len());
        assert!(!found.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_no_stillness() {
        assert_eq!(looks(200, |_| Vec::new()), [0; 0]);
    }
}
