//! A PID that the kernel gives again while we watch.

use std::process::Command;

use model::{Process, Snapshot};
use rustix::process::{Pid, geteuid, getpid};

use super::eventually;
use super::unchanged::Watch;
use super::workload::{Workload, pythons};

/// Starts a child that stands in one function; at a line, another with the same PID that stands in another.
const SCRIPT: &str = r#"
import os, sys, time
def say():
    sys.stdout.write("ready\n")
    sys.stdout.flush()
def first_place():
    time.sleep(600)
def second_place():
    time.sleep(600)
def start(place):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, b"x")
        place()
    os.read(read, 1)
    return child
def end(child):
    os.kill(child, 9)
    os.waitpid(child, 0)
child = start(first_place)
say()
sys.stdin.readline()
end(child)
while True:
    with open("/proc/sys/kernel/ns_last_pid", "w") as last:
        last.write(str(child - 1))
    again = start(second_place)
    if again == child:
        break
    end(again)
say()
sys.stdin.readline()
"#;

fn child_of(snapshot: &Snapshot, parent: i32) -> &Process {
    let mut processes = snapshot.processes.iter();
    processes.find(|one| one.ppid == parent).expect("a child")
}

fn stands_in(process: &Process, function: &str) -> bool {
    let traces = process.pyspy.iter().flat_map(|stacks| &stacks.traces);
    let mut frames = traces.flat_map(|trace| &trace.frames);
    frames.any(|frame| frame.name == function)
}

/// Only in a PID namespace of its own may a test say which PID is next: there it runs itself once more.
#[test]
fn a_pid_that_is_used_again_is_another_process_and_has_nothing_of_the_one_before() {
    if getpid() == Pid::INIT {
        return watch_a_pid_that_is_used_again();
    }
    if !geteuid().is_root() {
        return crate::tests::skipped("only root can make a PID namespace");
    }
    let name = "stacks::tests::reuse::a_pid_that_is_used_again_is_another_process_and_has_nothing_of_the_one_before";
    let mut command = Command::new("unshare");
    let command = command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    let command = command.arg(std::env::current_exe().unwrap());
    let output = command.args(["--exact", name]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn watch_a_pid_that_is_used_again() {
    let mut workload = Workload::start_script(&pythons()[0], SCRIPT);
    let parent = workload.id.pid;
    let mut watch = Watch::new();
    let first = eventually("the first child has its stack", || {
        let snapshot = watch.look(&workload);
        let child = child_of(&snapshot, parent);
        stands_in(child, "first_place").then(|| child.identity)
    });
    workload.tell("");
    eventually("the second child has its stack", || {
        let snapshot = watch.look(&workload);
        let child = child_of(&snapshot, parent);
        assert_eq!(child.pid, first.pid);
        assert_ne!(child.identity, first, "it began at another time");
        assert!(!stands_in(child, "first_place"), "{child:?}");
        stands_in(child, "second_place").then_some(())
    });
}
