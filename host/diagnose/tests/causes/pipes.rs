//! Pipes that are full, and pipes with nobody at the other end.

use taskscope_diagnose::{Cause, State};

use crate::story::{ask, expect, futex, on, pids, polls, story, waits_for};

const COUNT: u32 = 6;

#[test]
fn a_parent_waits_for_a_child_whose_output_it_does_not_read() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(
            10,
            1,
            &waits_for(20).at(&[
                "wait /usr/lib/python3.11/subprocess.py 1264",
                "main app.py 20",
            ]),
        );
        shot.process(
            20,
            10,
            &on("write", 1, "pipe:[1]").at(&["tokenize tok.py 13"]),
        );
        shot.pipe("pipe:[1]", &[10], &[20], 65000);
    });
    let verdict = ask(&snapshots);
    assert_eq!(
        (verdict.verdict, verdict.cause),
        (State::Hung, Cause::PipeFull),
        "{}",
        verdict.summary
    );
}

#[test]
fn a_parent_joins_a_child_that_still_puts_into_its_queue() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(
            10,
            1,
            &waits_for(20).at(&[
                "join /usr/lib/python3.11/multiprocessing/process.py 149",
                "main app.py 20",
            ]),
        );
        let child = shot.process(
            20,
            10,
            &on("write", 5, "pipe:[1]").at(&[
                "_send /usr/lib/python3.11/multiprocessing/connection.py 384",
                "work app.py 7",
            ]),
        );
        child.command = "python worker.py".to_owned();
        shot.pipe("pipe:[1]", &[10, 20], &[10, 20], 65536);
    });
    let verdict = ask(&snapshots);
    assert_eq!(
        (verdict.verdict, verdict.cause),
        (State::Hung, Cause::PipeFull),
        "{}",
        verdict.summary
    );
    assert_eq!(verdict.culprit.unwrap().pid, 10);
}

#[test]
fn a_logger_that_does_not_read_any_more() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(10, 1, &on("write", 1, "pipe:[1]").at(&["print train.py 3"]));
        shot.process(20, 1, &futex("0x1").at(&["rotate logger.py 9"]));
        shot.pipe("pipe:[1]", &[20], &[10], 65536);
    });
    let verdict = ask(&snapshots);
    assert!(
        matches!(verdict.cause, Cause::PipeFull | Cause::Deadlock),
        "{}",
        verdict.summary
    );
    assert_eq!(verdict.culprit.unwrap().pid, 20);
}

#[test]
fn a_reader_outside_the_task_does_not_read() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(10, 1, &on("write", 1, "pipe:[1]").at(&["print train.py 3"]));
        shot.pipe("pipe:[1]", &[], &[10], 65536);
    });
    expect(&snapshots, State::Hung, Cause::PipeFull, Some(10));
}

#[test]
fn a_writer_that_holds_the_only_reading_end_itself() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["main launch.py 3"]));
        shot.process(
            20,
            1,
            &on("write", 4, "pipe:[1]").at(&["write_samples data.py 18"]),
        );
        shot.pipe("pipe:[1]", &[20], &[20], 65536);
    });
    expect(&snapshots, State::Hung, Cause::PipeOrphaned, Some(20));
}

#[test]
fn a_reader_that_holds_the_only_writing_end_itself() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(
            10,
            1,
            &on("read", 4, "pipe:[1]").at(&[
                "_recv /usr/lib/python3.11/multiprocessing/connection.py 395",
                "batches data.py 31",
            ]),
        );
        shot.pipe("pipe:[1]", &[10], &[10], 0);
    });
    expect(&snapshots, State::Hung, Cause::PipeOrphaned, Some(10));
}

#[test]
fn workers_that_are_left_alone_hold_each_others_ends() {
    let snapshots = story(COUNT, |_, shot| {
        for pid in [20, 21] {
            shot.process(pid, 1, &on("read", 4, "pipe:[1]").at(&["get jobs.py 5"]));
        }
        shot.pipe("pipe:[1]", &[20, 21], &[20, 21], 0);
    });
    let verdict = expect(&snapshots, State::Hung, Cause::PipeOrphaned, Some(20));
    assert!(pids(&verdict).iter().all(|pid| *pid == 21));
}
