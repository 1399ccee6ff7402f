//! What is taken over from an earlier capture, on machines that are files: so a file that was changed although the thread
//! "did not run" shows whether it was read.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use model::{Detail, GapCode, ProcessId, Snapshot, Stacks, Thread, Timestamp, Trigger};
use testkit::{FakeMachine, FakeProcess, FakeThread};

use super::{gaps_of, machine, options, process, stacks};
use crate::gaps::GapList;
use crate::proc::Reader;
use crate::proc::reader::open_process;
use crate::proc::threads::Threads;
use crate::pulse;
use crate::{Machine, Moment, Scope, StackSource, capture, discover};

const SLEPT: &str = "5000 70 3\n";

fn stamp(second: u64) -> Timestamp {
    let start = Timestamp::from_microseconds(1_796_000_000_000_000).unwrap();
    start.after(std::time::Duration::from_secs(second))
}

/// Looks at second `second`.
fn look(machine: &Machine, second: u64) -> Snapshot {
    look_at_level(machine, second, Detail::Full)
}

fn look_at_level(machine: &Machine, second: u64, detail: Detail) -> Snapshot {
    let mut scope = Scope::tree(machine.identify(100).unwrap(), None);
    let moment = Moment {
        detail,
        sequence: second,
        trigger: Trigger::Interval,
        now: stamp(second),
        interval: None,
        missed_cycles: None,
    };
    let targets = discover(machine, &mut scope).unwrap();
    capture(machine, &options(), &targets, &moment)
}

#[test]
fn what_was_left_out_is_read_when_there_is_budget_again() {
    let mut fake = sleeper();
    let stack = "[<0>] futex_wait+0x1/0x2\n";
    fake.change(100, |p| p.thread(101, |t| t.file("stack", stack)));
    let machine = machine(&fake);
    let brief = Detail::WithoutThreadDetail;
    let levels = [brief, brief, Detail::Full, Detail::Full, brief];
    let seen: Vec<(bool, bool)> = (0..)
        .zip(levels)
        .map(|(second, detail)| {
            let snapshot = look_at_level(&machine, second, detail);
            let thread = thread(&snapshot, 101);
            let is_known = thread.unchanged_since.is_some();
            (is_known, !thread.kernel_stack.is_empty())
        })
        .collect();
    let (known, with_stack) = (true, true);
    let expected = [
        (!known, !with_stack),
        (known, !with_stack),
        (!known, with_stack),
        (known, with_stack),
        (known, !with_stack),
    ];
    assert_eq!(seen, expected);
}

fn thread(snapshot: &Snapshot, tid: i32) -> &Thread {
    let mut threads = process(snapshot, 100).proc.threads.iter();
    threads.find(|thread| thread.tid == tid).unwrap()
}

/// A process whose thread 101 sleeps in `first_wait`.
fn sleeper() -> FakeMachine {
    FakeMachine::new().process(100, |p| {
        p.thread(100, |t| t.file("schedstat", SLEPT))
            .thread(101, |t| t.wchan("first_wait").file("schedstat", SLEPT))
    })
}

/// Changes thread 101, which from now on seems to wait in `second_wait`.
fn change(fake: &mut FakeMachine, describe: impl FnOnce(FakeThread) -> FakeThread) {
    fake.change(100, |p| p.thread(101, |t| describe(t.wchan("second_wait"))));
}

/// A `stat` line of thread 101.
fn stat(state: char, start_time_ticks: u64, start_stack: u64) -> String {
    format!(
        "101 (fake) {state} 1 100 100 0 -1 4194304 100 0 0 0 7 0 0 0 20 0 2 0 {start_time_ticks} 1 1 1 1 1 {start_stack} 0 0\n"
    )
}

/// Looks, lets `describe` happen, and looks again; returns where thread 101 is then said to wait, and since when.
fn seen_after(
    mut fake: FakeMachine,
    describe: impl FnOnce(FakeThread) -> FakeThread,
) -> (String, Option<Timestamp>) {
    let machine = machine(&fake);
    let first = look(&machine, 1);
    assert_eq!(thread(&first, 101).wchan.as_deref(), Some("first_wait"));
    assert_eq!(thread(&first, 101).unchanged_since, None);
    change(&mut fake, describe);
    let second = look(&machine, 2);
    let seen = thread(&second, 101);
    (seen.wchan.clone().unwrap(), seen.unchanged_since)
}

fn assert_read_anew(seen: &(String, Option<Timestamp>)) {
    assert_eq!(*seen, ("second_wait".to_owned(), None));
}

#[test]
fn where_a_thread_waits_that_has_not_run_is_taken_over_and_said() {
    let mut fake = sleeper();
    let machine = machine(&fake);
    look(&machine, 1);
    change(&mut fake, |t| {
        t.comm("renamed").kernel_stack(["other"]).state('D')
    });
    for second in 2..5 {
        let snapshot = look(&machine, second);
        let seen = thread(&snapshot, 101);
        assert_eq!(seen.unchanged_since, Some(stamp(1)));
        assert_eq!(seen.wchan.as_deref(), Some("first_wait"));
        assert!(seen.kernel_stack.is_empty());
        // Others can change these while it sleeps.
        assert_eq!(seen.comm.as_deref(), Some("renamed"));
        assert_eq!(seen.state, Some('D'));
        assert_eq!(seen.schedstat.as_deref(), Some("5000 70 3"));
    }
}

#[test]
fn a_thread_that_ran_is_read_anew_whichever_figure_tells() {
    for schedstat in ["5001 70 3\n", "5000 71 3\n", "5000 70 4\n"] {
        assert_read_anew(&seen_after(sleeper(), |t| t.file("schedstat", schedstat)));
    }
}

#[test]
fn a_thread_that_was_woken_and_has_no_processor_yet_is_shown_as_runnable() {
    let mut fake = sleeper();
    let machine = machine(&fake);
    look(&machine, 1);
    change(&mut fake, |t| t.state('R').syscall("running"));
    let snapshot = look(&machine, 2);
    let seen = thread(&snapshot, 101);
    assert_eq!((seen.state, seen.unchanged_since), (Some('R'), None));
    assert_eq!(seen.wchan.as_deref(), Some("second_wait"));
}

#[test]
fn a_figure_caught_between_two_ticks_proves_nothing() {
    // It runs, and its figures are only brought up to date now and then.
    let running = || {
        let mut fake = sleeper();
        fake.change(100, |p| p.thread(101, |t| t.state('R')));
        fake
    };
    assert_read_anew(&seen_after(running(), |t| t));
    assert_read_anew(&seen_after(running(), |t| t.state('S')));
    assert_read_anew(&seen_after(sleeper(), |t| t.state('R')));
}

#[test]
fn what_a_debugger_has_stopped_is_no_sleep() {
    assert_read_anew(&seen_after(sleeper(), |t| t.state('t')));
}

#[test]
fn a_state_that_cannot_be_read_is_no_sleep() {
    assert_read_anew(&seen_after(sleeper(), |t| t.file("stat", "odd\n")));
}

#[test]
fn a_tid_that_is_used_again_does_not_show_the_old_thread() {
    let anew = seen_after(sleeper(), |t| t.file("stat", &stat('S', 1001, 0)));
    assert_read_anew(&anew);
}

#[test]
fn after_an_exec_nothing_is_taken_over() {
    let anew = seen_after(sleeper(), |t| t.file("stat", &stat('S', 1000, 4711)));
    assert_read_anew(&anew);
}

/// Without `schedstat`, or where it is three zeros.
fn without_schedstat() -> [FakeMachine; 2] {
    [None, Some("0 0 0\n")].map(|text| {
        let keep = |t: FakeThread| match text {
            None => t.without("schedstat"),
            Some(text) => t.file("schedstat", text),
        };
        FakeMachine::new().process(100, |p| {
            p.thread(100, keep)
                .thread(101, |t| keep(t.wchan("first_wait")))
        })
    })
}

#[test]
fn context_switches_tell_where_the_kernel_keeps_no_schedstat() {
    let switches = |voluntary: u32, forced: u32| {
        format!("voluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t{forced}\n")
    };
    for fake in without_schedstat() {
        let taken_over = seen_after(fake, |t| t);
        assert_eq!(taken_over, ("first_wait".to_owned(), Some(stamp(1))));
    }
    for moved in [switches(11, 1), switches(10, 2)] {
        for fake in without_schedstat() {
            assert_read_anew(&seen_after(fake, |t| t.file("status", &moved)));
        }
    }
}

#[test]
fn a_kernel_that_counts_nothing_has_every_thread_read_anew() {
    for mut fake in without_schedstat() {
        fake.change(100, |p| p.thread(101, |t| t.without("status")));
        assert_read_anew(&seen_after(fake, |t| t));
    }
}

#[test]
fn what_was_refused_or_is_not_there_is_counted_again() {
    let keep = |t: FakeThread| t.without("stack").file("schedstat", SLEPT);
    let fake = FakeMachine::new().process(100, |p| p.thread(100, keep).thread(101, keep));
    let machine = machine(&fake);
    let expected = [("task/*/stack", GapCode::Unsupported, 2)];
    assert_eq!(gaps_of(&look(&machine, 1), 100), expected);
    let second = look(&machine, 2);
    assert_eq!(thread(&second, 101).unchanged_since, Some(stamp(1)));
    assert_eq!(gaps_of(&second, 100), expected);
}

#[test]
fn what_a_sleeping_thread_works_on_is_named_by_the_descriptors_of_now() {
    let line = "0 0x3 0x7f0000000000 0x1 0x0 0x0 0x0 0x7ffd00000000 0x7f0000001000";
    let mut fake = sleeper();
    fake.change(100, |p| {
        p.fd(3, "pipe:[5]").thread(101, |t| {
            t.syscall(line).file("stat", &stat('S', 1000, 1 << 46))
        })
    });
    let machine = machine(&fake);
    let target = |snapshot: &Snapshot| thread(snapshot, 101).call.clone().unwrap().fd_target;
    assert_eq!(target(&look(&machine, 1)).as_deref(), Some("pipe:[5]"));
    fake.change(100, |p| p.fd(3, "socket:[6]"));
    let second = look(&machine, 2);
    assert_eq!(thread(&second, 101).unchanged_since, Some(stamp(1)));
    assert_eq!(target(&second).as_deref(), Some("socket:[6]"));
    fake.change(100, |p| {
        p.thread(101, |t| t.file("schedstat", "6000 70 4\n"))
    });
    let third = look(&machine, 3);
    assert_eq!(thread(&third, 101).unchanged_since, None);
}

/// A Python whose recorded stack stands in line `line`.
struct Recorded {
    directory: tempfile::TempDir,
    fake: FakeMachine,
    machine: Machine,
}

impl Recorded {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let fake = FakeMachine::new().process(100, |p| {
            p.exe("/usr/bin/python3.11")
                .thread(100, |t| t.file("schedstat", SLEPT))
                .thread(101, |t| t.file("schedstat", SLEPT))
        });
        let source = StackSource::Recorded(directory.path().to_owned());
        let machine = Machine::at(fake.proc_root(), fake.cgroup_root(), stacks(source))
            .with_shared_memory(fake.root().to_owned());
        Self {
            directory,
            fake,
            machine,
        }
    }

    fn stand(&self, line: u32) {
        let json = format!(
            r#"[{{"pid":100,"thread_id":1,"thread_name":"MainThread","os_thread_id":100,"active":false,
            "owns_gil":false,"frames":[{{"name":"step","filename":"/a/train.py","short_filename":"/a/train.py",
            "module":null,"line":{line},"locals":null}}],"process_info":null}}]"#
        );
        std::fs::write(self.directory.path().join("100.json"), json).unwrap();
    }

    /// The line it is seen in, and since when nothing changed; nothing where there is a gap.
    fn seen(&self, second: u64) -> Option<(i32, Option<Timestamp>)> {
        let snapshot = look(&self.machine, second);
        let stacks: &Stacks = process(&snapshot, 100).pyspy.as_ref()?;
        Some((stacks.traces[0].frames[0].line, stacks.unchanged_since))
    }

    fn change(&mut self, describe: impl FnOnce(FakeProcess) -> FakeProcess) {
        self.fake.change(100, describe);
    }
}

#[test]
fn python_stacks_are_taken_over_while_no_thread_runs() {
    let python = Recorded::new();
    python.stand(1);
    assert_eq!(python.seen(1), Some((1, None)));
    python.stand(2);
    for second in 2..5 {
        assert_eq!(python.seen(second), Some((1, Some(stamp(1)))));
    }
}

#[test]
fn python_stacks_are_read_anew_when_any_thread_ran_began_or_ended() {
    let ran = |p: FakeProcess| p.thread(101, |t| t.file("schedstat", "5001 70 4\n"));
    let is_woken = |p: FakeProcess| p.thread(101, |t| t.state('R'));
    let began = |p: FakeProcess| p.thread(102, |t| t.file("schedstat", SLEPT));
    let is_unknown = |p: FakeProcess| {
        let unknown = |t: FakeThread| t.file("schedstat", "0 0 0\n").without("status");
        p.thread(101, unknown)
    };
    for happens in [ran, is_woken, began, is_unknown] {
        let mut python = Recorded::new();
        python.stand(1);
        assert_eq!(python.seen(1), Some((1, None)));
        python.stand(2);
        python.change(happens);
        assert_eq!(python.seen(2), Some((2, None)));
    }
    let mut python = Recorded::new();
    python.change(began);
    python.stand(1);
    assert_eq!(python.seen(1), Some((1, None)));
    python.stand(2);
    python.fake.end(100, 1);
    python.fake.start(100, |p| {
        p.exe("/usr/bin/python3.11")
            .thread(100, |t| t.file("schedstat", SLEPT))
            .thread(101, |t| t.file("schedstat", SLEPT))
    });
    assert_eq!(python.seen(2), Some((2, None)));
}

#[test]
fn stacks_that_could_not_be_read_are_asked_for_again() {
    let python = Recorded::new();
    assert_eq!(python.seen(1), None);
    python.stand(1);
    assert_eq!(python.seen(2), Some((1, None)));
    assert_eq!(python.seen(3), Some((1, Some(stamp(2)))));
}

#[test]
fn namespaces_are_taken_over_until_the_main_thread_runs() {
    let mut fake = sleeper();
    let machine = machine(&fake);
    let net = |snapshot: &Snapshot| {
        let index = process(snapshot, 100).namespaces.unwrap();
        snapshot.namespaces[usize::try_from(index).unwrap()].net
    };
    let kept = net(&look(&machine, 1));
    let enter = |fake: &FakeMachine, number: u32| {
        let link = fake.proc_root().join("100/ns/net");
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(format!("net:[{number}]"), link).unwrap();
    };
    fake.change(100, |p| {
        p.thread(101, |t| t.file("schedstat", "6000 70 4\n"))
    });
    enter(&fake, 7);
    assert_eq!(net(&look(&machine, 2)), kept);
    fake.change(100, |p| {
        p.thread(100, |t| t.file("schedstat", "6000 70 4\n"))
    });
    enter(&fake, 7);
    assert_eq!(net(&look(&machine, 3)), Some(7));
}

#[test]
fn a_thread_that_begins_while_another_runs_is_read_although_it_had_no_pulse() {
    for (state, expected) in [('R', vec![100, 7, 101, 102]), ('S', vec![100, 101])] {
        let mut fake = sleeper();
        fake.change(100, |p| p.thread(101, |t| t.state(state)));
        let id: ProcessId = "100:1000".parse().unwrap();
        let mut reader = Reader::new();
        let pulses = pulse::read(&fake.proc_root(), &[id], &mut reader).remove(&id);
        // The main thread is the first, also where numbers have begun anew.
        fake.change(100, |p| p.thread(102, |t| t).thread(7, |t| t));
        let threads = Threads {
            detail: Detail::Full,
            gaps: &mut GapList::of(id),
            known: &mut BTreeMap::new(),
            now: stamp(1),
            pid: id.pid,
            reader: &mut reader,
        };
        let directory = open_process(&fake.proc_root(), 100).unwrap();
        let threads = threads.read(directory.as_fd(), pulses.unwrap());
        let tids: Vec<i32> = threads.iter().map(|thread| thread.tid).collect();
        assert_eq!(tids, expected);
    }
}
