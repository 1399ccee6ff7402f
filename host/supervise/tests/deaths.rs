//! Ends of processes that are not ours to wait for, or that nobody has waited for yet.
#![expect(clippy::print_stderr, reason = "a test says what it skips")]

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use model::{Ending, ProcessId};
use taskscope_supervise::{Deaths, Hold};
use testkit::{DEADLINE, process_state, send_signal, wait_until};

const KILL: i32 = 9;

/// A process that ends with its standard input, and its identity.
fn child() -> (Child, ProcessId) {
    let child = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn();
    let child = child.expect("cat is everywhere");
    let pid = i32::try_from(child.id()).expect("a PID fits");
    let process = ProcessId {
        pid,
        start_time_ticks: 1,
    };
    (child, process)
}

fn watch(most: usize) -> (Deaths, Receiver<(ProcessId, Ending)>) {
    let (sender, told) = channel();
    let deaths = Deaths::watch(most, move |death| {
        let ending = death.ending();
        _ = sender.send((death.process, ending));
        true
    });
    (deaths.expect("a thread and descriptors"), told)
}

#[test]
fn an_end_is_told_while_the_zombie_is_still_there() {
    let (deaths, told) = watch(8);
    let (mut child, process) = child();
    assert_eq!(deaths.hold(process, || true), Hold::Held);
    assert_eq!(deaths.hold(process, || panic!("it is held")), Hold::Held);
    send_signal(process.pid, KILL);
    let (dead, _) = told.recv_timeout(DEADLINE).expect("it ended");
    assert_eq!(dead, process);
    assert_eq!(process_state(process.pid), Some('Z'));
    wait_until(DEADLINE, || deaths.count() == 0);
    child.wait().expect("it is ours");
}

#[test]
fn who_was_reaped_before_we_looked_still_tells_its_status_on_a_new_kernel() {
    let (deaths, told) = watch(8);
    let (mut child, process) = child();
    // Reaped between the question whether it lives and the wait for its end.
    let hold = deaths.hold(process, || {
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        true
    });
    assert_eq!(hold, Hold::Held);
    let (dead, ending) = told.recv_timeout(DEADLINE).expect("it ended");
    assert_eq!(dead, process);
    let killed = Ending::Killed {
        core_dumped: false,
        signal: KILL,
    };
    // Linux 6.15 and later tell; others do not, and then nothing is claimed.
    assert!([killed, Ending::Unknown].contains(&ending), "{ending:?}");
    if is_new_kernel() {
        assert_eq!(ending, killed);
    } else {
        eprintln!("SKIPPED: Linux before 6.15 does not tell the status of who was reaped.");
    }
}

fn is_new_kernel() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("it is there");
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(15))
}

#[test]
fn whose_end_is_not_known_is_told_again_when_it_has_been_reaped() {
    let (sender, told) = channel();
    let deaths = Deaths::watch(8, move |death| {
        // Asked once: it may be reaped meanwhile.
        let ending = death.ending();
        _ = sender.send((death.is_reaped, ending));
        ending != Ending::Unknown
    });
    let deaths = deaths.expect("a thread and descriptors");
    let (mut child, process) = child();
    assert_eq!(deaths.hold(process, || true), Hold::Held);
    send_signal(process.pid, KILL);
    assert_eq!(told.recv_timeout(DEADLINE), Ok((false, Ending::Unknown)));
    child.wait().expect("it is ours");
    if !is_new_kernel() {
        return eprintln!("SKIPPED: this kernel forgets who has been reaped");
    }
    let (is_reaped, ending) = told.recv_timeout(DEADLINE).expect("it is told again");
    assert!(is_reaped);
    assert_eq!(ending.signal(), Some(KILL));
    wait_until(DEADLINE, || deaths.count() == 0);
}

#[test]
fn another_process_with_the_same_pid_is_not_held() {
    let (deaths, told) = watch(8);
    let (mut child, process) = child();
    assert_eq!(deaths.hold(process, || false), Hold::Gone);
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    assert_eq!(deaths.hold(process, || true), Hold::Gone);
    assert!(deaths.settle(DEADLINE));
    assert!(told.try_recv().is_err());
}

#[test]
fn no_more_are_held_than_may_be_and_a_place_that_is_free_is_given_again() {
    let (deaths, told) = watch(1);
    let (mut first, one) = child();
    let (mut second, other) = child();
    assert_eq!(deaths.hold(one, || true), Hold::Held);
    assert_eq!(deaths.hold(other, || true), Hold::Refused);
    drop(first.stdin.take());
    assert_eq!(told.recv_timeout(DEADLINE).expect("it ended").0, one);
    wait_until(DEADLINE, || deaths.count() == 0);
    assert_eq!(deaths.hold(other, || true), Hold::Held);
    drop(second.stdin.take());
    assert_eq!(told.recv_timeout(DEADLINE).expect("it ended").0, other);
    for child in [&mut first, &mut second] {
        assert!(child.wait().expect("it is ours").success());
    }
}

#[test]
fn all_that_have_ended_are_told_before_it_is_settled() {
    let (deaths, told) = watch(200);
    let mut children: Vec<(Child, ProcessId)> = (0..150).map(|_| child()).collect();
    for (_, process) in &children {
        assert_eq!(deaths.hold(*process, || true), Hold::Held);
    }
    for (child, process) in &mut children {
        drop(child.stdin.take());
        wait_until(DEADLINE, || process_state(process.pid) == Some('Z'));
    }
    assert!(deaths.settle(DEADLINE));
    let told: Vec<ProcessId> = told.try_iter().map(|(process, _)| process).collect();
    let ended: Vec<ProcessId> = children.iter().map(|(_, process)| *process).collect();
    assert_eq!(told, ended);
    for (child, _) in &mut children {
        child.wait().expect("it is ours");
    }
}

#[test]
fn a_signal_goes_to_who_is_held_and_to_no_other() {
    let (deaths, told) = watch(8);
    let (mut child, process) = child();
    assert!(!deaths.signal(process, rustix::process::Signal::TERM));
    assert_eq!(deaths.hold(process, || true), Hold::Held);
    assert!(deaths.signal(process, rustix::process::Signal::TERM));
    told.recv_timeout(DEADLINE + Duration::from_secs(1))
        .expect("it ended");
    wait_until(DEADLINE, || deaths.count() == 0);
    assert!(!deaths.signal(process, rustix::process::Signal::TERM));
    child.wait().expect("it is ours");
}
