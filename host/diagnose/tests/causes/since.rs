//! Since when nothing moves, and which instant an answer is about.

use model::{Snapshot, Trigger};
use taskscope_diagnose::{Cause, End, History, State, is_over, stand};

use crate::ends::{end, killed};
use crate::story::{Doing, ask, expect, futex, runs, story};

/// Three ranks, the last of which does this; the others wait for it, from the second and the third snapshot on.
fn held_up(last: impl Fn(u32) -> Doing) -> Vec<Snapshot> {
    let mut snapshots = story(9, |instant, shot| {
        shot.process(
            10,
            1,
            &futex("0x9").ran_until(instant).at(&["monitor launch.py 9"]),
        );
        for rank in 0..3 {
            let doing = match rank {
                2 => last(instant),
                _ => futex("0x1").at(&["all_reduce dist.py 50", "main train.py 30"]),
            };
            shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
        }
    });
    let times: Vec<_> = snapshots.iter().map(|it| it.capture.started_at).collect();
    for snapshot in &mut snapshots[3..] {
        let mut set = |process: usize, at: usize| {
            snapshot.processes[process].proc.threads[0].unchanged_since = Some(times[at]);
        };
        set(1, 1);
        set(2, 2);
    }
    snapshots
}

#[test]
fn of_one_that_turns_it_is_since_the_last_of_the_others_waits() {
    let turns = |instant| {
        runs(instant)
            .at(&["spin train.py 44", "main train.py 29"])
            .with_gil()
    };
    let snapshots = held_up(turns);
    let verdict = expect(&snapshots, State::Hung, Cause::RankBehind, Some(22));
    assert_eq!(verdict.since, Some(snapshots[2].capture.started_at));
}

#[test]
fn of_one_that_stands_it_is_since_it_stands() {
    let mut snapshots = held_up(|_| futex("0x2").at(&["load data.py 7", "main train.py 28"]));
    let early = snapshots[0].capture.started_at;
    for snapshot in &mut snapshots[3..] {
        snapshot.processes[3].proc.threads[0].unchanged_since = Some(early);
    }
    let verdict = expect(&snapshots, State::Hung, Cause::RankBehind, Some(22));
    assert_eq!(verdict.since, Some(early));
}

#[test]
fn what_a_task_did_after_it_was_told_to_end_is_not_what_the_answer_is_about() {
    let mut snapshots = held_up(|_| futex("0x2").at(&["load data.py 7", "main train.py 28"]));
    let before = ask(&snapshots[..8]);
    snapshots[8].capture.trigger = Some(Trigger::Signal);
    snapshots[8].processes.truncate(1);
    let history = History {
        snapshots: snapshots.iter().collect(),
        ends: Vec::new(),
    };
    assert_eq!(
        stand(&history).map(|it| it.capture.id),
        Some(snapshots[7].capture.id)
    );
    assert_eq!(ask(&snapshots), before);
    assert_eq!(stand(&History::default()), None);
}

#[test]
fn a_task_is_over_when_its_main_process_has_ended_and_not_when_another_has() {
    let snapshots = held_up(|_| futex("0x2").at(&["load data.py 7", "main train.py 28"]));
    for (pid, expected) in [(10, true), (22, false)] {
        let obituary = end(1, pid, killed(15));
        let history = History {
            snapshots: snapshots.iter().collect(),
            ends: vec![End {
                obituary: &obituary,
                record: "obituaries/1",
                index: 0,
            }],
        };
        assert_eq!(is_over(&history), expected, "{pid}");
    }
}
