//! Ends on a machine that is made up.
#![expect(clippy::print_stderr, reason = "a test says what it skips")]

use std::process::{Child, Command};

use capture::{StackSettings, StackSource};
use model::{Circumstance, Timestamp};
use testkit::FakeMachine;

use super::out_of_memory::KILL;
use super::*;

const GIB: u64 = 1 << 30;
/// Longer than any PID is.
const NOBODY: i32 = 4_194_305;

/// A real process, so that there is one to hold, which lives until this is dropped.
struct Stand(Child);

impl Stand {
    fn new() -> Self {
        Self(Command::new("/bin/sleep").arg("1000").spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        self.0.id().try_into().unwrap()
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn local(fake: &FakeMachine) -> Machine {
    let stacks = StackSettings {
        source: StackSource::Off,
        timeout: Duration::ZERO,
        nonblocking: true,
        max_parallel: 1,
    };
    Machine::at(fake.proc_root(), fake.cgroup_root(), stacks)
}

fn begin(fake: &FakeMachine, root: i32) -> (Ends, ProcessId) {
    let machine = Arc::new(local(fake));
    let root = machine.identify(root).unwrap();
    let now = Timestamp::parse("2026-11-30T00:00:00Z").unwrap();
    let scope = Scope::tree(root, None);
    (Ends::begin(machine, scope, Clock::Fixed(now)), root)
}

/// A machine with one process, in a cgroup that is full and has seen four kills.
fn at_its_limit(pid: i32) -> FakeMachine {
    let mut fake = FakeMachine::new()
        .cgroup_file("job/memory.current", "100\n")
        .cgroup_file("job/memory.max", "100\n")
        .cgroup_file("job/memory.events", "oom_kill 4\n");
    fake.start(pid, |it| it.cgroup("0::/job\n"));
    fake
}

fn killed() -> Ending {
    Ending::from_wait_status(KILL)
}

#[test]
fn nobody_is_ended_whose_pid_may_be_another_process_for_us() {
    let mut process = Stand::new();
    let fake = FakeMachine::new()
        .process(NOBODY, |it| it)
        .process(process.pid(), |it| it.ppid(NOBODY));
    let (ends, _) = begin(&fake, NOBODY);
    let lines = ends.leftovers(Some(Duration::ZERO));
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].starts_with("they are not ended"), "{lines:?}");
    assert!(process.0.try_wait().unwrap().is_none());
}

#[test]
fn nobody_is_held_whose_pid_may_be_another_process_for_us() {
    let process = Stand::new();
    let mut fake = FakeMachine::new();
    fake.start(process.pid(), |it| it);
    let (ends, root) = begin(&fake, process.pid());
    let deaths = ends.0.deaths.as_ref().unwrap();
    assert_eq!((deaths.count(), deaths.is_held(root)), (0, false));
    // Its end is found out by looking, and that is counted.
    let no_births = Err(supervise::BirthsError::NoAnswer);
    ends.follow_births(no_births);
    let unseen = ends.so_far().unseen;
    assert_eq!(unseen.unheld, 1);
    let gap = unseen.between_looks.unwrap().gap.unwrap();
    assert!(gap.detail.unwrap().starts_with("--proc-root shows PIDs"));
    std::fs::remove_dir_all(fake.proc_root().join(process.pid().to_string())).unwrap();
    ends.close();
    let dead = ends.lock().written.notable()[0].clone();
    assert_eq!((dead.process, dead.ending), (root, Ending::Unknown));
}

#[test]
fn a_kill_that_the_events_of_a_cgroup_of_version_2_count_is_one_for_want_of_memory() {
    let process = Stand::new();
    let mut fake = FakeMachine::new()
        .cgroup_file("job/memory.current", &format!("{}\n", 11 * GIB))
        .cgroup_file("job/memory.peak", &format!("{}\n", 12 * GIB - GIB / 5))
        .cgroup_file("job/memory.max", &format!("{}\n", 12 * GIB))
        .cgroup_file("job/memory.events.local", "low 0\noom 0\noom_kill 4\n");
    fake.start(process.pid(), |it| it.cgroup("0::/job\n"));
    let (ends, root) = begin(&fake, process.pid());
    // One of us was killed, and one more that nobody had seen; four were before we came.
    let fake = fake.cgroup_file("job/memory.events.local", "low 0\noom 2\noom_kill 6\n");
    ends.told(root, Instant::now(), true, |_| killed());
    ends.close();
    let path = fake.cgroup_root().join("job").display().to_string();
    let dead = ends.lock().written.notable()[0].clone();
    assert_eq!(
        dead.circumstances,
        [Circumstance::OutOfMemory {
            cgroup: Some(path),
            holders: Vec::new(),
            limit_bytes: Some(12 * GIB),
            usage_bytes: Some(12 * GIB - GIB / 5),
        }]
    );
    assert_eq!(ends.lock().unseen().out_of_memory, 1);
    let lines = ends.words(killed(), None, &[]);
    assert!(
        lines[0].ends_with("died: SIGKILL, out of memory in its cgroup, 11.8 of 12.0 GiB"),
        "{lines:?}"
    );
    assert_eq!(
        lines[1],
        "1 process of the task that nobody had seen before was killed for want of memory"
    );
}

#[test]
fn a_kill_that_no_cgroup_counts_is_no_want_of_memory() {
    let process = Stand::new();
    let fake = at_its_limit(process.pid());
    let (ends, root) = begin(&fake, process.pid());
    ends.told(root, Instant::now(), true, |_| killed());
    assert!(ends.lock().written.notable()[0].circumstances.is_empty());
    // Until it does: where all memory is gone its file could not be read at once.
    let fake = fake.cgroup_file("job/memory.events", "oom_kill 5\n");
    ends.look_for_kills_again();
    let around = ends.lock().written.notable()[0].circumstances.clone();
    assert!(matches!(around[..], [Circumstance::OutOfMemory { .. }]));
    assert_eq!(ends.lock().written.take()[0].circumstances, around);
    drop(fake);
}

#[test]
fn an_orphan_that_was_seen_has_its_status_and_one_that_was_not_is_counted_once() {
    let (process, orphan) = (Stand::new(), Stand::new());
    let mut fake = FakeMachine::new();
    fake.start(process.pid(), |it| it);
    fake.start(orphan.pid(), |it| it.ppid(process.pid()));
    fake.start(NOBODY, |it| it.ppid(process.pid()));
    let (ends, _) = begin(&fake, process.pid());
    let orphans = Orphans::default();
    orphans.ended(7, Ending::Exited(0));
    ends.take_orphans(&orphans);
    let seen = local(&fake).identify(orphan.pid()).unwrap();
    ends.found(vec![Found {
        is_zombie: false,
        name: "worker".to_owned(),
        ppid: process.pid(),
        process: seen,
    }]);
    orphans.ended(orphan.pid(), Ending::Exited(3));
    orphans.ended(NOBODY, Ending::Exited(4));
    orphans.ended(NOBODY, Ending::Exited(4));
    // Who has gone was waited for by somebody else.
    orphans.ended(NOBODY + 1, Ending::Exited(4));
    let account = ends.lock();
    assert_eq!(account.written.notable().len(), 1);
    let dead = &account.written.notable()[0];
    assert_eq!((dead.process, dead.ending), (seen, Ending::Exited(3)));
    assert_eq!(
        account.unseen().orphans,
        2,
        "an early one and an unseen one"
    );
}

#[test]
fn whoever_asks_is_told_of_an_end_once_and_of_no_other() {
    let (process, asked) = (Stand::new(), Stand::new());
    let mut fake = FakeMachine::new();
    fake.start(process.pid(), |it| it);
    fake.start(asked.pid(), |it| it);
    let (ends, root) = begin(&fake, process.pid());
    let (told, ended) = std::sync::mpsc::channel();
    let flags = rustix::event::EventfdFlags::NONBLOCK;
    let bell = Arc::new(rustix::event::eventfd(0, flags).unwrap());
    ends.listen(Listener::new(told, Arc::clone(&bell)));
    let stranger = local(&fake).identify(asked.pid()).unwrap();
    assert_eq!(ends.ask_for(stranger, || true), Hold::Held);
    ends.told(root, Instant::now(), true, |_| Ending::Exited(0));
    for _ in 0..2 {
        ends.told(stranger, Instant::now(), true, |_| Ending::Exited(6));
    }
    let all: Vec<_> = ended.try_iter().collect();
    assert_eq!(all, [(stranger, Ending::Exited(6))]);
    assert_eq!(rustix::io::read(&*bell, &mut [0; 8]), Ok(8));
    // It is none of the task's: nobody writes its obituary.
    assert!(ends.lock().written.notable().is_empty());
}

#[test]
fn an_end_that_is_known_later_is_put_right_before_it_is_written() {
    let process = Stand::new();
    let fake = at_its_limit(process.pid());
    let (ends, root) = begin(&fake, process.pid());
    let fake = fake.cgroup_file("job/memory.events", "oom_kill 5\n");
    let is_known = ends.told(root, Instant::now(), false, |_| Ending::Unknown);
    assert!(!is_known);
    let now = Clock::Fixed(Timestamp::parse("2026-11-30T00:00:01Z").unwrap()).now();
    ends.look_for_kills_again();
    assert!(ends.lock().due(now).is_empty(), "it waits");
    ends.main_ended(killed());
    ends.look_for_kills_again();
    let due = ends.lock().due(now);
    assert_eq!(due[0].ending, killed());
    assert!(matches!(
        due[0].circumstances[..],
        [Circumstance::OutOfMemory { .. }]
    ));
    // Nobody tells of it for the third time.
    assert!(ends.told(root, Instant::now(), true, |_| Ending::Exited(1)));
    assert_eq!(ends.lock().written.notable()[0].ending, killed());
    drop(fake);
}

#[test]
fn an_end_that_turns_out_well_is_none_that_words_are_about() {
    let process = Stand::new();
    let mut fake = FakeMachine::new();
    fake.start(process.pid(), |it| it);
    let (ends, root) = begin(&fake, process.pid());
    ends.told(root, Instant::now(), false, |_| Ending::Unknown);
    assert_eq!(ends.so_far().obituaries.len(), 1);
    ends.main_ended(Ending::Exited(0));
    let told = ends.so_far();
    assert_eq!((told.obituaries.len(), told.well, told.left_out), (0, 1, 0));
}

#[test]
fn how_one_ended_that_was_gone_before_it_could_be_held_is_told_by_the_kernel() {
    let Ok(connector) = supervise::Connector::open() else {
        eprintln!("SKIPPED: the kernel does not tell of births here");
        return;
    };
    let machine = Arc::new(Machine::local(StackSettings {
        source: StackSource::Off,
        timeout: Duration::ZERO,
        nonblocking: true,
        max_parallel: 1,
    }));
    let own = i32::try_from(std::process::id()).unwrap();
    let scope = Scope::tree(machine.identify(own).unwrap(), None);
    let now = Timestamp::parse("2026-11-30T00:00:00Z").unwrap();
    let ends = Ends::begin(Arc::clone(&machine), scope, Clock::Fixed(now));
    ends.follow_births(Ok(connector));
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "read line; exit 7"])
        .stdin(std::process::Stdio::piped());
    let mut child = shell.spawn().unwrap();
    let process = machine
        .identify(i32::try_from(child.id()).unwrap())
        .unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    ends.found(vec![Found {
        is_zombie: false,
        name: "sh".to_owned(),
        ppid: own,
        process,
    }]);
    let account = ends.lock();
    let all = account.written.notable();
    let dead = all.iter().find(|one| one.process == process).unwrap();
    assert_eq!((dead.ending, dead.ended_after), (Ending::Exited(7), None));
}

#[test]
fn who_has_given_its_memory_back_is_remembered_with_what_it_had() {
    let mut sample = crate::sampling::tests::sample(0.0);
    let mut account = Account::new(sample.root, Instant::now(), sample.at);
    account.sampled(&sample, Instant::now());
    sample.processes[0].rss_bytes = Some(0);
    account.sampled(&sample, Instant::now());
    account.died(Told {
        at: Instant::now(),
        circumstance: None,
        cpu: None,
        ended_at: sample.at,
        ending: killed(),
        is_final: true,
        is_late: false,
        name: None,
        process: sample.root,
    });
    let dead = &account.written.notable()[0];
    assert_eq!(dead.memory.unwrap().rss_bytes, 3 << 20);
}
