//! Whole looks at fake machines and at living processes.

mod cgroups;
mod connections;
mod discovery;
mod explained;
mod file_systems;
mod gpus;
pub(crate) mod handed;
mod layouts;
mod left_out;
pub(crate) mod live;
mod memory;
mod recorded;
mod shares;
mod snapshot;
mod unchanged;
mod waits;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use model::{Detail, Gap, GapCode, Process, Snapshot, Task, Timestamp, Trigger};
use testkit::FakeMachine;

use crate::{
    HelperProgram, Machine, Moment, Options, Scope, StackSettings, StackSource, Targets, capture,
    discover,
};

fn stacks(source: StackSource) -> StackSettings {
    StackSettings {
        source,
        timeout: Duration::from_secs(5),
        nonblocking: true,
        max_parallel: 2,
    }
}

/// Says what could not be tested here.
pub(crate) fn skipped(why: &str) {
    writeln!(std::io::stderr(), "skipped: {why}").unwrap();
}

/// Fake Pythons have no stacks.
pub(crate) fn machine(fake: &FakeMachine) -> Machine {
    Machine::at(
        fake.proc_root(),
        fake.cgroup_root(),
        stacks(StackSource::Off),
    )
    .with_shared_memory(fake.root().to_owned())
}

/// This machine, read as the collector reads it.
pub(crate) fn local() -> Machine {
    local_in_place().with_memory_helper(memory_helper())
}

/// This machine without a helper, for a thread that has other rights than this process.
fn local_in_place() -> Machine {
    Machine::local(stacks(StackSource::Off)).with_shared_memory(PathBuf::from("/tmp"))
}

/// The memory helper that cargo builds with this crate's tests: `examples/memory_helper.rs`.
pub(crate) fn memory_helper() -> HelperProgram {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().parent().unwrap();
    let program = built.join("examples/memory_helper");
    assert!(
        program.exists(),
        "{} is missing: run `cargo test -p taskscope-capture` without `--lib`",
        program.display()
    );
    HelperProgram {
        program,
        arguments: Vec::new(),
    }
}

pub(crate) fn options() -> Options {
    Options {
        task: Task::new("job/1".parse().unwrap(), 0, "node", "host"),
        collector_version: "0.0.0".to_owned(),
        focus_files: vec!["train.py".to_owned()],
        locals: Vec::new(),
        process_pattern: Some(regex::Regex::new("train").unwrap()),
        environment: Vec::new(),
        redact: Vec::new(),
        shared_memory: None,
    }
}

fn moment() -> Moment {
    Moment {
        sequence: 7,
        trigger: Trigger::Interval,
        detail: Detail::Full,
        now: Timestamp::from_microseconds(1_796_000_000_000_000).unwrap(),
        interval: Some(Duration::from_mins(2)),
        missed_cycles: None,
    }
}

fn look_at(machine: &Machine, targets: &Targets) -> Snapshot {
    capture(machine, &options(), targets, &moment())
}

/// Looks once at the tree of `pid`.
fn look(machine: &Machine, pid: i32) -> Snapshot {
    let mut scope = Scope::tree(machine.identify(pid).unwrap(), None);
    look_at(machine, &discover(machine, &mut scope).unwrap())
}

fn pids(targets: &Targets) -> Vec<i32> {
    targets.processes.iter().map(|id| id.pid).collect()
}

fn process(snapshot: &Snapshot, pid: i32) -> &Process {
    let mut processes = snapshot.processes.iter();
    processes
        .find(|process| process.pid == pid)
        .expect("the process is in the snapshot")
}

/// The gaps of one process as `(what, code, count)`, without those of its Python stacks.
fn gaps_of(snapshot: &Snapshot, pid: i32) -> Vec<(&str, GapCode, u32)> {
    let of_process = |gap: &&Gap| gap.process.is_some_and(|id| id.pid == pid);
    let gaps = snapshot.gaps.iter().filter(of_process);
    gaps.filter(|gap| gap.what != "python_stack")
        .map(|gap| (gap.what.as_str(), gap.code, gap.count))
        .collect()
}
