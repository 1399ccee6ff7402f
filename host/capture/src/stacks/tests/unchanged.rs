//! Stacks of living Pythons that are taken over from an earlier capture, or must not be.

use std::path::Path;
use std::time::Duration;

use model::{Detail, Gap, GapCode, Process, Snapshot, Stacks, Thread, Timestamp, Trigger};

use super::workload::{SCRIPT, Workload, pythons};
use super::{eventually, helper_program, settings};
use crate::tests::options;
use crate::{Machine, Moment, Scope, StackSource, capture, discover};

/// How often what depends on the instant is tried; this variable says otherwise.
const REPETITIONS: u64 = 20;
const REPETITIONS_VARIABLE: &str = "TASKSCOPE_REPEAT";

/// The main thread goes to the next place at each line it reads; another thread sleeps all along.
const WANDERING_SCRIPT: &str = r#"
import sys, threading
gate = threading.Lock()
gate.acquire()
other = threading.Thread(target=gate.acquire)
other.daemon = True
other.start()
def say():
    sys.stdout.write("ready\n")
    sys.stdout.flush()
def place_0():
    say()
    sys.stdin.readline()
def place_1():
    say()
    sys.stdin.readline()
while True:
    place_0()
    place_1()
"#;

/// A thread that sleeps, while the main thread works.
const SPINNING_SCRIPT: &str = r#"
import sys, threading
gate = threading.Lock()
gate.acquire()
other = threading.Thread(target=gate.acquire)
other.daemon = True
other.start()
sys.stdout.write("ready\n")
sys.stdout.flush()
turn = 0
while True:
    turn += 1
"#;

/// Two threads sleep; at each line that is read one of them ends.
const ENDING_SCRIPT: &str = r#"
import sys, threading
gate = threading.Lock()
gate.acquire()
others = [threading.Thread(target=gate.acquire) for _ in range(2)]
for other in others:
    other.daemon = True
    other.start()
while True:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    gate.release()
    while all(other.is_alive() for other in others):
        pass
    others = [other for other in others if other.is_alive()]
"#;

/// A machine that is looked at once a second, as it believes.
pub(super) struct Watch {
    machine: Machine,
    second: u64,
}

impl Watch {
    pub(super) fn new() -> Self {
        let source = StackSource::Embedded {
            helper: helper_program(),
            arguments: Vec::new(),
        };
        Self {
            machine: Machine::local(settings(source)),
            second: 0,
        }
    }

    /// Looks at it; again if a stack was caught in the middle of a change, which is a gap and nothing old.
    pub(super) fn look(&mut self, workload: &Workload) -> Snapshot {
        eventually("no stack changes while it is read", || {
            let snapshot = self.look_once(workload);
            let is_torn = |gap: &Gap| gap.what == "python_stack" && gap.code == GapCode::Torn;
            (!snapshot.gaps.iter().any(is_torn)).then_some(snapshot)
        })
    }

    fn look_once(&mut self, workload: &Workload) -> Snapshot {
        self.second += 1;
        let moment = Moment {
            detail: Detail::Full,
            sequence: self.second,
            trigger: Trigger::Interval,
            now: stamp(self.second),
            interval: None,
            missed_cycles: None,
        };
        let mut scope = Scope::tree(workload.id, None);
        let targets = discover(&self.machine, &mut scope).unwrap();
        capture(&self.machine, &options(), &targets, &moment)
    }

    /// Looks until nothing of the process is read anew.
    fn until_all_rests(&mut self, workload: &Workload) -> Snapshot {
        eventually("no thread runs", || {
            let snapshot = self.look(workload);
            stacks(&snapshot).unchanged_since.map(|_| snapshot)
        })
    }
}

fn stamp(second: u64) -> Timestamp {
    let start = Timestamp::from_microseconds(1_796_000_000_000_000).unwrap();
    start.after(Duration::from_secs(second))
}

/// The stacks.
fn stacks(snapshot: &Snapshot) -> &Stacks {
    let stacks = snapshot.processes[0].pyspy.as_ref();
    stacks.unwrap_or_else(|| panic!("{:?}", snapshot.gaps))
}

/// The functions in which threads stand.
fn places(snapshot: &Snapshot) -> Vec<&str> {
    let traces = stacks(snapshot).traces.iter();
    let frames = traces.flat_map(|trace| &trace.frames);
    frames.map(|frame| frame.name.as_str()).collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "who runs the tests says how often"
)]
fn repetitions() -> u64 {
    let wanted = std::env::var(REPETITIONS_VARIABLE).ok();
    wanted.map_or(REPETITIONS, |wanted| wanted.parse().expect("a number"))
}

/// What two looks at a sleeping process have in common, whatever others do.
fn lasting(process: &Process) -> (Vec<Thread>, Stacks) {
    let mut threads = process.proc.threads.clone();
    for thread in &mut threads {
        thread.unchanged_since = None;
    }
    let stacks = process.pyspy.clone().unwrap();
    let unchanged_since = None;
    (
        threads,
        Stacks {
            unchanged_since,
            ..stacks
        },
    )
}

#[test]
fn what_is_taken_over_of_an_idle_python_is_what_a_fresh_look_finds() {
    for python in pythons() {
        let workload = Workload::start_script(&python, SCRIPT);
        let mut watch = Watch::new();
        let reused = watch.until_all_rests(&workload);
        let since = stacks(&reused).unchanged_since.unwrap();
        assert!(since < stamp(watch.second));
        let fresh = Watch::new().look(&workload);
        let threads = |snapshot: &Snapshot| {
            let threads = snapshot.processes[0].proc.threads.iter();
            threads
                .map(|thread| thread.unchanged_since)
                .collect::<Vec<_>>()
        };
        assert!(threads(&reused).iter().all(Option::is_some), "{reused:?}");
        assert!(threads(&fresh).iter().all(Option::is_none), "{fresh:?}");
        assert_eq!(stacks(&fresh).unchanged_since, None);
        let [reused, fresh] = [&reused, &fresh].map(|seen| lasting(&seen.processes[0]));
        assert_eq!(reused, fresh, "{}", python.display());
    }
}

#[test]
fn a_thread_that_works_is_always_read_anew_and_so_are_the_stacks_of_its_process() {
    let workload = Workload::start_script(&pythons()[0], SPINNING_SCRIPT);
    let mut watch = Watch::new();
    let is_other_at_rest = |snapshot: &Snapshot| {
        let threads = &snapshot.processes[0].proc.threads;
        assert_eq!(threads[0].unchanged_since, None);
        assert_eq!(stacks(snapshot).unchanged_since, None);
        threads[1].unchanged_since.is_some()
    };
    eventually("the other thread is known", || {
        is_other_at_rest(&watch.look(&workload)).then_some(())
    });
    for _ in 0..20 {
        is_other_at_rest(&watch.look(&workload));
    }
}

#[test]
fn a_thread_that_wakes_shows_its_new_stack_in_the_very_next_capture() {
    let mut workload = Workload::start_script(&pythons()[0], WANDERING_SCRIPT);
    let mut watch = Watch::new();
    for turn in 0..repetitions() {
        let (here, there) = match turn % 2 {
            0 => ("place_0", "place_1"),
            _ => ("place_1", "place_0"),
        };
        let before = watch.until_all_rests(&workload);
        assert!(places(&before).contains(&here), "{before:?}");
        workload.tell("on");
        let after = watch.look(&workload);
        assert_eq!(stacks(&after).unchanged_since, None);
        let threads = &after.processes[0].proc.threads;
        assert_eq!(threads[0].unchanged_since, None);
        let places = places(&after);
        assert!(places.contains(&there), "turn {turn}: {places:?}");
        assert!(!places.contains(&here), "turn {turn}: {places:?}");
    }
}

#[test]
fn after_an_exec_the_new_program_is_read() {
    let pythons = pythons();
    let mut workload = Workload::start(&pythons[0]);
    let mut watch = Watch::new();
    for program in pythons.iter().chain(&pythons[..1]) {
        watch.until_all_rests(&workload);
        workload.exec(Path::new(program));
        let after = watch.look(&workload);
        assert_eq!(stacks(&after).unchanged_since, None);
        let threads = &after.processes[0].proc.threads;
        assert!(
            threads
                .iter()
                .all(|thread| thread.unchanged_since.is_none())
        );
    }
}

#[test]
fn when_a_thread_has_ended_its_stack_is_gone_with_it() {
    let mut workload = Workload::start_script(&pythons()[0], ENDING_SCRIPT);
    let mut watch = Watch::new();
    for left in [2, 1] {
        let before = watch.until_all_rests(&workload);
        assert_eq!(stacks(&before).traces.len(), left + 1);
        workload.tell("end one");
        let after = watch.look(&workload);
        assert_eq!(stacks(&after).unchanged_since, None);
        assert_eq!(stacks(&after).traces.len(), left);
    }
}
