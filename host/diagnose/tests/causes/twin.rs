//! A suspect beside its twin: what differs, and nothing else.

use model::Step;
use taskscope_diagnose::{History, Twin, judge, resolve, twin};

use crate::story::{call, futex, polls, story};

/// Four ranks of which the last waits for a file; the words are what is special about it.
fn compared(special: impl Fn(u32, &mut model::Process)) -> Twin {
    let snapshots = story(8, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
        for rank in 0..4 {
            let step = ["step train.py 12", "main train.py 30"];
            let doing = if rank == 3 {
                call("openat")
                    .of_path("/data/fifo")
                    .in_kernel("wait_for_partner", 'S')
                    .at(&[
                        "open /usr/lib/python3.12/io.py 3",
                        "load data.py 7",
                        step[0],
                        step[1],
                    ])
            } else {
                futex("0x7f00")
                    .at(&["all_reduce dist.py 50", step[0], step[1]])
                    .ran_until(5)
            };
            let process = shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
            let environment = &mut process.distributed_environment;
            environment.insert("RANK".to_owned(), rank.to_string());
            environment.insert("OMP_NUM_THREADS".to_owned(), "4".to_owned());
            let file = format!("/tmp/x/attempt_0/{rank}/error.json");
            environment.insert("TORCHELASTIC_ERROR_FILE".to_owned(), file);
            process.steps.push(Step {
                file: "train.py".to_owned(),
                function: "main".to_owned(),
                line: 30,
                name: "step".to_owned(),
                thread_id: None,
                value: if rank == 3 { 6.into() } else { 7.into() },
            });
            process.proc.allowed_cpus = Some("0-3".to_owned());
            if rank == 3 {
                special(instant, process);
            }
        }
    });
    let history = History {
        snapshots: snapshots.iter().collect(),
        ends: Vec::new(),
    };
    let verdict = judge(std::slice::from_ref(&history)).verdict;
    let found = twin(std::slice::from_ref(&history), &verdict).unwrap();
    for evidence in found.differences.iter().flat_map(|it| &it.evidence) {
        let value = resolve(&snapshots[7], &evidence.path);
        assert_eq!(value.as_ref(), Some(&evidence.value), "{}", evidence.path);
    }
    found
}

fn words(twin: &Twin) -> Vec<String> {
    let differences = twin.differences.iter();
    differences
        .map(|it| format!("{}: {} / {}", it.what, it.suspect, it.twin))
        .collect()
}

#[test]
fn where_they_part_what_they_wait_for_and_how_far_they_are() {
    let twin = compared(|_, _| {});
    assert_eq!((twin.suspect.rank, twin.twin.rank), (Some(3), Some(2)));
    assert_eq!(
        words(&twin),
        [
            "stack below step (train.py:12): open (io.py:3) < load (data.py:7) / all_reduce (dist.py:50)",
            "step: 6 / 7",
            "wait: openat / futex",
        ]
    );
}

#[test]
fn what_it_may_use_and_what_it_was_started_with() {
    let twin = compared(|instant, process| {
        process.proc.allowed_cpus = Some("0".to_owned());
        let environment = &mut process.distributed_environment;
        environment.insert("OMP_NUM_THREADS".to_owned(), "1".to_owned());
        environment.insert("NCCL_P2P_DISABLE".to_owned(), "1".to_owned());
        process.proc.major_faults = Some(u64::from(instant) * 100);
        let read = (u64::from(instant) << 30).to_string();
        process.proc.io.insert("rchar".to_owned(), read);
    });
    let words = words(&twin);
    for expected in [
        "allowed CPUs: 0 / 0-3",
        "OMP_NUM_THREADS: 1 / 4",
        "NCCL_P2P_DISABLE: 1 / not set",
    ] {
        assert!(
            words.iter().any(|it| it == expected),
            "{expected}: {words:#?}"
        );
    }
    assert!(!words.iter().any(|it| it.starts_with("RANK")), "{words:#?}");
}

#[test]
fn a_value_that_holds_the_number_of_the_rank_is_no_difference_and_one_that_says_more_is() {
    let twin = compared(|_, _| {});
    let about = |twin: &Twin| {
        words(twin)
            .into_iter()
            .filter(|it| it.starts_with("TORCH"))
            .collect::<Vec<_>>()
    };
    assert_eq!(about(&twin), [""; 0]);
    let other = compared(|_, process| {
        let environment = &mut process.distributed_environment;
        environment.insert(
            "TORCHELASTIC_ERROR_FILE".to_owned(),
            "/tmp/x/attempt_1/3/error.json".to_owned(),
        );
    });
    assert_eq!(
        about(&other),
        ["TORCHELASTIC_ERROR_FILE: /tmp/x/attempt_1/3/error.json / /tmp/x/attempt_0/2/error.json"]
    );
}

#[test]
fn without_a_rank_to_blame_there_is_no_twin() {
    let snapshots = story(8, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
    });
    let history = History {
        snapshots: snapshots.iter().collect(),
        ends: Vec::new(),
    };
    let verdict = judge(std::slice::from_ref(&history)).verdict;
    assert_eq!(twin(std::slice::from_ref(&history), &verdict), None);
}
