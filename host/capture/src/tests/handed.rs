//! A memory helper that may not open the memory of any process, as under Yama, and is handed it by us.

use std::process::Command;

use model::{EnvironmentSource, Snapshot};
use testkit::{DEADLINE, wait_until};

use super::connections::{Job, futex_of};
use super::live::Started;
use super::memory::OVERWRITE;
use super::{local_in_place, look, memory_helper, process};
use crate::{HelperProgram, Machine};

/// A memory helper that is no ancestor of anything.
pub(crate) fn program() -> HelperProgram {
    HelperProgram {
        program: testkit::newest_python().path.clone(),
        arguments: vec![
            "-c".into(),
            testkit::NO_ANCESTOR.into(),
            memory_helper().program.into(),
        ],
    }
}

fn machine() -> Machine {
    local_in_place().with_memory_helper(program())
}

/// A Python that waits for a lock which it has itself.
fn waiting_job() -> Job {
    Job::start("lock = threading.Lock()\nlock.acquire()\nlock.acquire()")
}

fn has_word(snapshot: &Snapshot, pid: i32) -> bool {
    futex_of(snapshot, pid).is_some_and(|futex| futex.value == Some(0))
}

#[test]
fn the_word_of_a_futex_is_read_by_the_memory_that_is_handed_and_no_descriptor_is_lost() {
    let (job, other) = (waiting_job(), waiting_job());
    let machine = machine();
    let descriptors = || {
        let [helper] = machine.helper_pids()[..] else {
            panic!("one helper")
        };
        let listed = std::fs::read_dir(format!("/proc/{helper}/fd"));
        listed.unwrap().count()
    };
    for pid in [other.pid(), job.pid()] {
        wait_until(DEADLINE, || has_word(&look(&machine, pid), pid));
    }
    let before = descriptors();
    for _ in 0..25 {
        for pid in [other.pid(), job.pid()] {
            assert!(has_word(&look(&machine, pid), pid));
        }
    }
    assert_eq!(descriptors(), before);
}

#[test]
fn the_environment_under_a_title_is_read_by_the_memory_that_is_handed() {
    let python = testkit::newest_python().path.clone();
    let code = format!("import ctypes, sys\n{OVERWRITE}\nsys.stdin.read()");
    let mut command = Command::new(python);
    let child = Started::new(command.args(["-c", &code]).env("RANK", "7"));
    wait_until(DEADLINE, || {
        let snapshot = look(&machine(), child.pid());
        let process = process(&snapshot, child.pid());
        let seen = &process.distributed_environment;
        process.environment_source == Some(EnvironmentSource::Memory)
            && seen.get("LOCAL_RANK").is_some_and(|rank| rank == "2")
    });
}

#[test]
fn a_word_is_read_of_the_new_program_after_an_exec() {
    let python = testkit::newest_python().path.display().to_string();
    let wait = "import os, sys, threading\nlock = threading.Lock()\nlock.acquire()\n\
                threading.Thread(target=lock.acquire, daemon=True).start()\nsys.stdin.readline()";
    let code = format!("{wait}\nos.execv({python:?}, [{python:?}, '-c', {wait:?}])");
    let mut child = Started::new(Command::new(&python).args(["-c", &code]));
    let machine = machine();
    // Main thread aside, only one of Python waits so.
    let pid = child.pid();
    let seen = || {
        let snapshot = look(&machine, pid);
        let mut futexes = snapshot.ipc.futexes.iter();
        let is_read = futexes.any(|futex| futex.value == Some(0));
        let process = process(&snapshot, pid);
        let is_python = process.cmdline.first() == Some(&python);
        (is_read && is_python).then_some(process.exec_generation)
    };
    let mut before = None;
    wait_until(DEADLINE, || {
        before = seen().flatten();
        before.is_some()
    });
    child.write(b"\n");
    wait_until(DEADLINE, || seen().flatten() > before);
}
