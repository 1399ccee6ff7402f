//! The four-rank example under `run`: every rank has its stack and its annotations, and the page shows them.

use serde_json::Value;
use testkit::{DEADLINE, newest_python};

use crate::support::{four_ranks, sandbox, wait_for_snapshot};

/// The process's notes by key.
fn note<'a>(snapshot: &'a Value, identity: &Value, key: &str) -> Option<&'a Value> {
    let mut annotations = snapshot["annotations"].as_array().unwrap().iter();
    let found = annotations.find(|it| it["target"]["process"] == *identity && it["key"] == key)?;
    found["value"].as_object()?.values().next()
}

fn ranks(snapshot: &Value) -> Vec<(&Value, f64)> {
    let processes = snapshot["processes"].as_array().unwrap().iter();
    let mut ranks: Vec<(&Value, f64)> = processes
        .filter(|process| {
            note(snapshot, &process["identity"], "role").is_some_and(|role| role == "rank")
        })
        .map(|process| {
            (
                process,
                note(snapshot, &process["identity"], "rank")
                    .unwrap()
                    .as_f64()
                    .unwrap(),
            )
        })
        .collect();
    ranks.sort_by(|left, right| left.1.total_cmp(&right.1));
    ranks
}

fn has_stack_in_train(process: &Value) -> bool {
    let traces = process["pyspy"]["traces"].as_array();
    traces.is_some_and(|traces| {
        traces
            .iter()
            .flat_map(|trace| trace["frames"].as_array().unwrap())
            .any(|frame| {
                frame["filename"].as_str().unwrap().ends_with("/train.py")
                    && frame["line"].as_u64().unwrap() > 0
            })
    })
}

#[test]
fn every_rank_of_the_example_is_seen_with_its_stack_and_its_place() {
    let sandbox = sandbox();
    let launch = four_ranks().join("launch.py");
    let python = newest_python().path.to_str().unwrap();
    let command = [
        "run",
        "--interval",
        "500ms",
        "--",
        python,
        launch.to_str().unwrap(),
    ];
    let running = sandbox.spawn(command);
    let complete = |snapshot: &Value| {
        let ranks = ranks(snapshot);
        ranks.len() == 4 && ranks.iter().all(|(process, _)| has_stack_in_train(process))
    };
    let seen = wait_for_snapshot(&sandbox, complete);
    let numbers: Vec<f64> = ranks(&seen).iter().map(|(_, rank)| *rank).collect();
    assert_eq!(numbers, [0.0, 1.0, 2.0, 3.0]);
    for (process, _) in ranks(&seen) {
        let identity = &process["identity"];
        assert_eq!(
            note(&seen, identity, "world-size").unwrap().as_f64(),
            Some(4.0)
        );
        assert!(
            note(&seen, identity, "group").is_some()
                && note(&seen, identity, "local-rank").is_some()
        );
    }
    // Not the first of the list: where numbers of processes began anew at 1 the ranks have lower ones.
    let parent = &ranks(&seen)[0].0["ppid"];
    let mut processes = seen["processes"].as_array().unwrap().iter();
    let launcher = processes.find(|process| process["pid"] == *parent).unwrap();
    let role = note(&seen, &launcher["identity"], "role");
    assert_eq!(role.unwrap(), "launcher");
    let missing = seen["annotations"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["key"] == "missing-ranks");
    assert!(
        missing.is_none_or(|it| it["value"]["text"] == ""),
        "{missing:?}"
    );
    let page = sandbox
        .run(["show", "--at", seen["capture"]["id"].as_str().unwrap()])
        .success()
        .stdout;
    for rank in 0..4 {
        assert!(page.contains(&format!("rank {rank} ")), "{page}");
    }
    assert!(page.contains("train.py:"), "{page}");
    let output = running.wait(DEADLINE).success();
    assert!(output.stdout.contains("loss"), "{output}");
}

#[test]
fn a_rank_that_hangs_is_seen_where_it_hangs() {
    let sandbox = sandbox();
    let launch = four_ranks().join("launch.py");
    let python = newest_python().path.to_str().unwrap();
    let train = four_ranks().join("train.py");
    let [launch, train] = [&launch, &train].map(|path| path.to_str().unwrap());
    let mut command = vec!["run", "--interval", "500ms", "--", python, launch, train];
    command.extend([
        "--stall-rank",
        "2",
        "--stall-at",
        "3",
        "--stall-in",
        "sleep",
    ]);
    let running = sandbox.spawn(command);
    let innermost = |process: &Value| {
        let traces = process["pyspy"]["traces"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let main = traces
            .into_iter()
            .find(|trace| trace["thread_name"] == "MainThread");
        main.map(|main| {
            main["frames"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| it["name"].to_string())
                .collect::<String>()
        })
    };
    let stuck = |snapshot: &Value| {
        let ranks = ranks(snapshot);
        ranks.len() == 4
            && ranks.iter().all(|(process, rank)| {
                let waits = innermost(process).is_some_and(|names| names.contains("all_reduce"));
                if *rank == 2.0 {
                    !waits && has_stack_in_train(process)
                } else {
                    waits
                }
            })
    };
    let _ = wait_for_snapshot(&sandbox, stuck);
    running.signal(15);
    let _ = running.wait(DEADLINE);
}
