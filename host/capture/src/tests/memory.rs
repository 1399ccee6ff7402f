//! Reads that wait for the memory of a process: what becomes of the helper, and what is found where a file says nothing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use model::{EnvironmentSource, GapCode, Process, Snapshot};
use testkit::{DEADLINE, FakeMachine, pythons, wait_until};

use super::live::Started;
use super::{gaps_of, local, look, machine, memory_helper, process, stacks};
use crate::{HelperProgram, Machine, StackSource};

/// Overwrites what `/proc/PID/environ` shows, as a title does, after the library has strings of its own.
pub(super) const OVERWRITE: &str = "import os
os.environ['LOCAL_RANK'] = '2'
for name, value in os.environ.items(): os.putenv(name, value)
fields = open('/proc/self/stat').read().rpartition(')')[2].split()
start, end = int(fields[47]), int(fields[48])
ctypes.memset(start, 0, end - start)";

/// Looks with a new collector until the process is there as `is_ready` says.
fn seen_late(pid: i32, is_ready: impl Fn(&Process) -> bool) -> Snapshot {
    let mut found = None;
    wait_until(DEADLINE, || {
        let snapshot = look(&local(), pid);
        let ready = is_ready(process(&snapshot, pid));
        found = ready.then_some(snapshot);
        found.is_some()
    });
    found.unwrap()
}

fn has_memory(process: &Process) -> bool {
    process.environment_source == Some(EnvironmentSource::Memory)
}

#[test]
fn the_rank_of_a_process_that_is_first_seen_under_its_title_is_in_its_memory() {
    let python = testkit::newest_python().path.clone();
    let code = format!("import ctypes, sys\n{OVERWRITE}\nsys.stdin.read()");
    let mut command = Command::new(python);
    let child = Started::new(command.args(["-c", &code]).env("RANK", "7"));
    let snapshot = seen_late(child.pid(), has_memory);
    let seen = &process(&snapshot, child.pid()).distributed_environment;
    assert_eq!(seen["RANK"], "7");
    assert_eq!(seen["LOCAL_RANK"], "2", "what it has set since counts");
    assert!(!seen.contains_key("PATH"), "{seen:?}");
    let gaps = gaps_of(&snapshot, child.pid());
    assert!(gaps.iter().all(|(what, ..)| *what != "environ"), "{gaps:?}");
}

#[test]
fn who_saw_the_environment_before_the_title_believes_that() {
    let python = testkit::newest_python().path.clone();
    let code = format!("import ctypes, sys\nsys.stdin.readline()\n{OVERWRITE}\nsys.stdin.read()");
    let mut command = Command::new(python);
    let mut child = Started::new(command.args(["-c", &code]).env("RANK", "7"));
    let machine = local();
    wait_until(DEADLINE, || {
        let snapshot = look(&machine, child.pid());
        let process = process(&snapshot, child.pid());
        process
            .exe
            .as_deref()
            .is_some_and(|exe| exe.contains("python"))
            && process.distributed_environment.contains_key("RANK")
    });
    child.write(b"\n");
    let late = seen_late(child.pid(), has_memory);
    assert_eq!(
        process(&late, child.pid()).distributed_environment["LOCAL_RANK"],
        "2"
    );
    let snapshot = look(&machine, child.pid());
    let known = process(&snapshot, child.pid());
    assert_eq!(
        known.environment_source,
        Some(EnvironmentSource::FirstSight)
    );
    assert!(!known.distributed_environment.contains_key("LOCAL_RANK"));
}

/// A program that has another environment than the one it was started with, which is overwritten.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
static char *fresh[] = {"RANK=7", "SECRET=x", 0};
int main(void) {
    char *start = environ[0], *end = start;
    for (char **one = environ; *one; one++) end = *one + strlen(*one) + 1;
    memset(start, 0, end - start);
    environ = fresh;
    pause();
    return 0;
}
"#;

fn compiled(directory: &Path, options: &[&str]) -> Option<PathBuf> {
    let source = directory.join("program.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let program = directory.join("program");
    let mut command = Command::new("cc");
    let command = command.args(options).arg("-o").args([&program, &source]);
    let is_there = command.status().is_ok_and(|status| status.success());
    is_there.then_some(program)
}

#[test]
fn the_environment_is_found_however_the_program_is_linked() {
    let directory = tempfile::tempdir().unwrap();
    for options in [&["-static"][..], &["-no-pie"], &["-fPIE", "-pie"]] {
        let Some(program) = compiled(directory.path(), options) else {
            continue;
        };
        let child = Started::new(Command::new(program).env("RANK", "3"));
        let snapshot = seen_late(child.pid(), has_memory);
        let seen = &process(&snapshot, child.pid()).distributed_environment;
        assert_eq!(seen.len(), 1, "{options:?}: {seen:?}");
        assert_eq!(seen["RANK"], "7", "{options:?}");
    }
}

#[test]
fn a_program_without_symbols_leaves_a_gap_that_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), &["-static", "-s"]) else {
        return;
    };
    let child = Started::new(Command::new(program).env("RANK", "3"));
    let name = |process: &Process| {
        process
            .exe
            .as_deref()
            .is_some_and(|exe| exe.ends_with("/program"))
    };
    let is_overwritten = |snapshot: &Snapshot| {
        let gaps = snapshot.gaps.iter();
        let mut gaps = gaps.filter(|gap| gap.what == "environ" && gap.code == GapCode::Malformed);
        gaps.any(|gap| {
            gap.detail
                .as_deref()
                .unwrap()
                .contains("no `environ` among the symbols")
        })
    };
    wait_until(DEADLINE, || is_overwritten(&seen_late(child.pid(), name)));
}

#[test]
fn an_exec_is_counted_and_the_stacks_are_those_of_the_new_program() {
    let (first, second) = (&pythons()[0].path, &pythons()[pythons().len() - 1].path);
    let next = "import sys\ndef waits_in_the_new_program():\n    sys.stdin.read()\nwaits_in_the_new_program()";
    let code = format!(
        "import os, sys\nsys.stdin.readline()\nos.execv({second:?}, [{second:?}, '-c', {next:?}])"
    );
    let mut command = Command::new(first);
    let mut child = Started::new(command.args(["-c", &code]));
    let program = memory_helper().program.with_file_name("stack_helper");
    let settings = stacks(StackSource::Embedded {
        helper: program,
        arguments: Vec::new(),
    });
    let machine = Machine::local(settings).with_memory_helper(memory_helper());
    let generation = |snapshot: &Snapshot| process(snapshot, child.pid()).exec_generation;
    let is_python = |snapshot: &Snapshot| process(snapshot, child.pid()).pyspy.is_some();
    // It was this test before its first exec.
    let mut before = None;
    wait_until(DEADLINE, || {
        let snapshot = look(&machine, child.pid());
        before = generation(&snapshot).filter(|_| is_python(&snapshot));
        before.is_some()
    });
    // A helper that is late on a busy machine leaves a gap, which tells nothing.
    let mut again = look(&machine, child.pid());
    wait_until(DEADLINE, || {
        again = look(&machine, child.pid());
        generation(&again).is_some()
    });
    assert_eq!(generation(&again), before, "it has not changed");
    let identity = process(&again, child.pid()).identity;
    child.write(b"\n");
    wait_until(DEADLINE, || {
        let snapshot = look(&machine, child.pid());
        let process = process(&snapshot, child.pid());
        let stacks = process.pyspy.iter().flat_map(|stacks| &stacks.traces);
        let mut frames = stacks.flat_map(|trace| &trace.frames);
        assert_eq!(process.identity, identity);
        process.exec_generation == before.map(|count| count + 1)
            && frames.any(|frame| frame.name == "waits_in_the_new_program")
    });
}

/// A fake machine with two processes, of which one blocks who reads its arguments.
fn blocking() -> FakeMachine {
    let fake = FakeMachine::new()
        .process(100, |p| p.cmdline(["python3", "train.py"]))
        .process(101, |p| p.ppid(100).cmdline(["tee", "log"]));
    let path = fake.proc_root().join("100/cmdline");
    std::fs::remove_file(&path).unwrap();
    let directory = std::fs::File::open(fake.proc_root()).unwrap();
    rustix::fs::mkfifoat(&directory, "100/cmdline", 0o600.into()).unwrap();
    fake
}

#[test]
fn a_blocked_helper_is_replaced_and_no_process_of_ours_remains_after_the_end() {
    let fake = blocking();
    let mut machine = machine(&fake).with_memory_helper(memory_helper());
    let snapshot = look(&machine, 100);
    assert_eq!(
        gaps_of(&snapshot, 100)[0],
        ("cmdline", GapCode::BlockedRead, 1)
    );
    assert_eq!(process(&snapshot, 101).cmdline, ["tee", "log"]);
    assert_eq!(
        snapshot.capture.helper_count,
        Some(1),
        "the blocked one was ended"
    );
    let helpers = machine.helper_pids();
    look(&machine, 100);
    assert_eq!(machine.helper_pids(), helpers, "no other helper was lost");
    let began = Instant::now();
    machine.close();
    assert!(began.elapsed() < DEADLINE);
    assert_eq!(machine.helper_pids(), [0; 0]);
    for pid in helpers {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        assert!(comm.is_ok_and(|comm| comm != "taskscope-mem\n") || !testkit::process_exists(pid));
    }
}

#[test]
fn a_process_is_tried_again_at_once_when_its_state_changes() {
    let mut fake = blocking();
    let machine = machine(&fake).with_memory_helper(memory_helper());
    look(&machine, 100);
    fake.change(100, |p| p.state('R'));
    let fifo = fake.proc_root().join("100/cmdline");
    std::fs::remove_file(&fifo).unwrap();
    std::fs::write(&fifo, "python3\0again.py\0").unwrap();
    assert_eq!(
        process(&look(&machine, 100), 100).cmdline,
        ["python3", "again.py"]
    );
}

#[test]
fn without_a_helper_there_are_gaps_and_what_needs_none() {
    for program in ["/nowhere/at/all", "/bin/true"] {
        let fake = FakeMachine::new().process(100, |p| p.cmdline(["sleep", "9"]).exe("/bin/sleep"));
        let machine = machine(&fake).with_memory_helper(HelperProgram {
            program: program.into(),
            arguments: Vec::new(),
        });
        let snapshot = look(&machine, 100);
        let failed = [
            ("cmdline", GapCode::Failed, 1),
            ("environ", GapCode::Failed, 1),
        ];
        assert_eq!(gaps_of(&snapshot, 100), failed);
        assert_eq!(process(&snapshot, 100).exe.as_deref(), Some("/bin/sleep"));
        assert!(
            snapshot.gaps[0]
                .detail
                .as_deref()
                .unwrap()
                .contains(program)
        );
    }
}

/// Sets what Ray Train sets within a worker that runs already.
const RANKED: &str = "import os, sys
sys.stdin.readline()
os.environ.update(RANK='3', LOCAL_RANK='1', WORLD_SIZE='4', SECRET='x')
sys.stdin.read()";

#[test]
fn a_rank_that_a_program_sets_itself_is_found_in_its_memory() {
    for python in pythons() {
        let mut command = Command::new(&python.path);
        let mut child = Started::new(command.args(["-c", RANKED]).env("OMP_NUM_THREADS", "2"));
        let machine = local();
        // Known without a rank first.
        wait_until(DEADLINE, || {
            let snapshot = look(&machine, child.pid());
            let process = process(&snapshot, child.pid());
            process.python_candidate
                && process.environment_source == Some(EnvironmentSource::FirstSight)
        });
        child.write(b"\n");
        let mut looks = 0;
        wait_until(DEADLINE, || {
            looks += 1;
            let snapshot = look(&machine, child.pid());
            has_memory(process(&snapshot, child.pid()))
        });
        assert!(looks < 200, "{looks}: it is looked for every 32 captures");
        let snapshot = look(&machine, child.pid());
        let seen = &process(&snapshot, child.pid()).distributed_environment;
        let names: Vec<&str> = seen.keys().map(String::as_str).collect();
        let expected = ["LOCAL_RANK", "OMP_NUM_THREADS", "RANK", "WORLD_SIZE"];
        assert_eq!(names, expected, "{}", python.path.display());
        assert_eq!((&*seen["RANK"], &*seen["WORLD_SIZE"]), ("3", "4"));
        // Who comes late, as `taskscope snapshot` does, finds it at once.
        let late = look(&local(), child.pid());
        assert_eq!(
            process(&late, child.pid()).distributed_environment["RANK"],
            "3"
        );
    }
}
