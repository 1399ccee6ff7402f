//! Waits for somebody: input, a peer, a child, ended children.

use taskscope_diagnose::{Cause, State};

use crate::story::{ask, call, descriptor, expect, on, pids, polls, story, waits_for};

const COUNT: u32 = 8;

#[test]
fn input_from_a_terminal_from_a_pipe_of_a_stranger_and_by_poll() {
    let readers = [
        on("read", 0, "/dev/pts/3"),
        on("read", 0, "pipe:[1]"),
        call("poll").of_fds(&[0]),
    ];
    for reader in readers {
        let snapshots = story(COUNT, |_, shot| {
            let process = shot.process(10, 1, &reader.clone().at(&["ask app.py 3"]));
            descriptor(process, 0, "pipe:[1]");
            shot.pipe("pipe:[1]", &[10], &[], 0);
        });
        expect(&snapshots, State::Hung, Cause::WaitingForInput, Some(10));
    }
}

#[test]
fn a_child_that_asks_for_input() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
        shot.process(
            20,
            10,
            &on("read", 0, "/dev/tty").at(&["confirm tool.py 3"]),
        );
    });
    let verdict = expect(&snapshots, State::Hung, Cause::WaitingForInput, Some(20));
    assert_eq!(pids(&verdict), [10]);
}

#[test]
fn an_answer_from_elsewhere_a_connection_that_is_not_accepted_and_a_fifo() {
    let waits = [
        on("recvfrom", 4, "socket:[1]"),
        on("connect", 4, "socket:[1]"),
        call("openat")
            .of_path("/run/fifo")
            .in_kernel("wait_for_partner", 'S'),
    ];
    for wait in waits {
        let snapshots = story(18, |_, shot| {
            shot.process(10, 1, &wait.clone().at(&["fetch app.py 3"]));
            shot.tcp(
                "socket:[1]",
                &[10],
                ("10.0.0.1:5000", "10.0.0.2:443", "established"),
                None,
            );
        });
        expect(&snapshots, State::Hung, Cause::WaitingForPeer, Some(10));
    }
}

#[test]
fn a_server_of_the_task_that_does_not_answer_is_named() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["main launch.py 3"]));
        shot.process(
            20,
            10,
            &on("recvfrom", 4, "socket:[1]").at(&["fetch client.py 3"]),
        );
        shot.process(21, 10, &call("pause").at(&["serve server.py 3"]));
        shot.unix(("socket:[1]", 20), ("socket:[2]", 21));
    });
    let verdict = expect(&snapshots, State::Hung, Cause::WaitingForPeer, Some(21));
    assert_eq!(pids(&verdict), [20]);
}

#[test]
fn a_child_that_waits_for_a_signal_for_a_device_or_for_what_is_not_known() {
    for child in [
        call("rt_sigsuspend"),
        on("read", 5, "/dev/fancy0"),
        call("io_uring_enter"),
    ] {
        let snapshots = story(COUNT, |_, shot| {
            shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
            shot.process(20, 10, &child.clone().at(&["work tool.py 3"]));
        });
        let verdict = expect(&snapshots, State::Hung, Cause::WaitingForChild, Some(20));
        assert_eq!(pids(&verdict), [10]);
    }
}

#[test]
fn children_that_ended_and_a_parent_that_looks_for_what_they_should_have_left() {
    for (code, signal) in [(Some(2), None), (Some(1), None), (None, Some(11))] {
        let snapshots = story(COUNT, |instant, shot| {
            shot.process(10, 1, &polls(instant).at(&["main app.py 21"]));
            for pid in 20..23 {
                shot.zombie(pid, 10, code, signal);
            }
        });
        expect(&snapshots, State::Hung, Cause::ZombieUnreaped, Some(10));
    }
}

#[test]
fn ended_children_of_a_parent_that_gets_on_are_no_hang() {
    let snapshots = story(COUNT, |instant, shot| {
        let process = shot.process(10, 1, &polls(instant).at(&["main app.py 21"]));
        crate::story::counts(process, "main", instant);
        shot.zombie(20, 10, Some(0), None);
    });
    assert_eq!(ask(&snapshots).verdict, State::Healthy);
}

/// A child has ended, and what it has started keeps the pipe open that the parent reads to the end: that one is the matter.
#[test]
fn the_output_of_a_child_that_ended_held_open_by_one_that_stands_still() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(
            10,
            1,
            &on("read", 3, "pipe:[1]").at(&["communicate app.py 3"]),
        );
        shot.zombie(20, 10, Some(1), None);
        let opens = call("openat")
            .of_path("/run/control")
            .in_kernel("wait_for_partner", 'S');
        shot.process(21, 10, &opens.at(&["daemon app.py 9"]));
        shot.pipe("pipe:[1]", &[10], &[21], 0);
    });
    let verdict = expect(&snapshots, State::Hung, Cause::WaitingForPeer, Some(21));
    assert_eq!(pids(&verdict), [10]);
}
