//! What several processes and nodes are to each other: waits in a circle, and clocks that disagree.

use std::time::{Duration, Instant};

use model::{
    Ending, Endpoint, EndpointKind, FileLock, LockWaiter, Obituary, ObituarySegment, Snapshot,
    SystemCall, TcpFacts, Unseen,
};
use serde_json::json;

use crate::client::{DEADLINE, Page};
use crate::job::{self, Job};

const HOUR: Duration = Duration::from_hours(1);

#[test]
fn who_waits_in_a_circle_is_marked_with_what_shows_it() {
    let job = Job {
        nodes: 1,
        ranks: 3,
        snapshots: 6,
        stuck: None,
    };
    let root = tempfile::tempdir().unwrap();
    for sequence in 0..job.snapshots {
        let mut snapshot = job::snapshot(job, 0, sequence);
        // Ranks 0 and 1 hold a lock each and want that of the other.
        for place in [0, 1] {
            let (holder, waiter) = (&snapshot.processes[place], &snapshot.processes[1 - place]);
            let lock = FileLock {
                access: "WRITE".to_owned(),
                class: "FLOCK".to_owned(),
                holder: Some(holder.identity),
                holder_pid: Some(holder.pid),
                path: Some(format!("/srv/{place}.lock")),
                waiters: vec![LockWaiter {
                    access: "WRITE".to_owned(),
                    identity: Some(waiter.identity),
                    pid: Some(waiter.pid),
                }],
                ..FileLock::default()
            };
            if place == 0 {
                snapshot.ipc.locks.clear();
            }
            snapshot.ipc.locks.push(lock);
            snapshot.processes[place].proc.threads[0].call = Some(SystemCall {
                name: "flock".to_owned(),
                ..SystemCall::default()
            });
        }
        job::put(root.path(), &snapshot);
    }
    let page = Page::of(root.path());
    let waits = page.get("part/ipc").text();
    assert!(waits.contains("in a circle"), "{waits}");
    assert_eq!(waits.matches("class=\"circle\"").count(), 2, "{waits}");
    let processes = page.get("part/processes").text();
    assert_eq!(processes.matches("in a circle").count(), 2, "{processes}");
    let mut links = waits
        .split("href=\"")
        .filter_map(|rest| rest.split('"').next());
    let link = links.find(|link| link.contains("locks")).unwrap();
    let value = page.get(&link.replace("&amp;", "&"));
    assert_eq!(value.status, 200, "{link}: {}", value.text());
}

/// Moves a snapshot along in time.
fn later(snapshot: &mut Snapshot, by: Duration) {
    let capture = &mut snapshot.capture;
    capture.started_at = capture.started_at.after(by);
    capture.completed_at = capture.completed_at.after(by);
    capture.id.stamp = capture.id.stamp.after(by);
}

#[test]
fn a_node_that_has_stored_nothing_lately_is_told_of_and_not_judged() {
    let job = Job {
        nodes: 3,
        ranks: 2,
        snapshots: 8,
        stuck: None,
    };
    let root = tempfile::tempdir().unwrap();
    for sequence in 0..job.snapshots {
        for node in 0..job.nodes {
            let mut snapshot = job::snapshot(job, node, sequence);
            if sequence >= 4 {
                later(&mut snapshot, HOUR);
            }
            if node != 1 || sequence < 4 {
                job::put(root.path(), &snapshot);
            }
        }
    }
    let page = Page::of(root.path());
    let why = page.json("api/v1/why");
    let silent = &why["silent"][0];
    assert_eq!(
        (&silent["node"], &silent["ranks"]),
        (&json!("node-1"), &json!("2,3")),
        "{why}"
    );
    assert_eq!(silent["behind_s"], 3604, "{why}");
    assert_eq!(why["silent"].as_array().unwrap().len(), 1, "{why}");
    let judged = why["why"]["evidence"].as_array().unwrap();
    assert!(judged.iter().all(|it| it["node"] != "node-1"), "{why}");
    let words = "the node of ranks 2,3 (node-1) has stored nothing since";
    for path in ["", "part/verdict"] {
        let text = page.get(path).text();
        assert!(text.contains(words), "{path}: {text}");
    }
    // It was one of them as long as it stored something.
    let first = job::snapshot(job, 0, 3).capture.id;
    let then = page.json(&format!("api/v1/why?at={first}"));
    assert_eq!(then["silent"], json!([]), "{then}");
    let matrix = page.whole("api/v1/ranks");
    let [before, after] = [3, 7].map(|column| matrix["cells"][column].clone());
    assert_eq!(before, json!([0, 6]), "{matrix}");
    assert_eq!(after, json!([0, 2, -4, 2, 0, 2]), "{matrix}");
}

#[test]
fn nodes_are_in_the_order_of_their_numbers_and_those_without_a_snapshot_are_named() {
    let job = Job {
        nodes: 12,
        ranks: 1,
        snapshots: 1,
        stuck: None,
    };
    let root = tempfile::tempdir().unwrap();
    for node in 0..job.nodes {
        job::put(root.path(), &job::snapshot(job, node, 0));
    }
    let without = job::snapshot(job, 12, 0).task;
    job::put_record(root.path(), &without, "report.json", &json!({}));
    let page = Page::of(root.path());
    let expected: Vec<String> = (0..13).map(|node| format!("node-{node}")).collect();
    let run = page.json("api/v1/run");
    let names = run["nodes"].as_array().unwrap().iter();
    let names: Vec<&str> = names.map(|it| it["node"].as_str().unwrap()).collect();
    assert_eq!(names, expected);
    assert_eq!(page.whole("api/v1/timeline")["nodes"], json!(expected));
    let processes = page.get("part/processes").text();
    let places: Vec<Option<usize>> = (0..12)
        .map(|node| processes.find(&format!(">node-{node}<")))
        .collect();
    assert!(places.is_sorted() && places[0].is_some(), "{processes}");
    assert_eq!(
        page.json("api/v1/why")["without_snapshot"],
        json!(["node-12"])
    );
    let verdict = page.get("part/verdict").text();
    assert!(
        verdict.contains("node node-12 has stored no snapshot by this instant"),
        "{verdict}"
    );
}

/// What a node sees of its connection with the other one, on which the first sends 1 kB a second.
fn connected(snapshot: &mut Snapshot, node: u64) {
    let address = |node: u64| format!("10.0.0.{}:29500", node + 1);
    let sent = snapshot.capture.sequence * 1000;
    let facts = TcpFacts {
        bytes_acknowledged: Some(if node == 0 { sent } else { 0 }),
        bytes_received: Some(if node == 0 { 0 } else { sent }),
        local: address(node),
        remote: address(1 - node),
        ..TcpFacts::default()
    };
    snapshot.ipc.endpoints = vec![Endpoint {
        kind: Some(EndpointKind::Tcp),
        target: "socket:[7]".to_owned(),
        tcp: Some(facts),
        ..Endpoint::default()
    }];
}

#[test]
fn a_node_whose_clock_is_an_hour_ahead_is_shown_at_the_same_instants_as_the_others() {
    let job = Job {
        nodes: 2,
        ranks: 2,
        snapshots: 12,
        stuck: None,
    };
    let root = tempfile::tempdir().unwrap();
    for sequence in 0..job.snapshots {
        for node in 0..2 {
            let mut snapshot = job::snapshot(job, node, sequence);
            connected(&mut snapshot, node);
            if node == 1 {
                later(&mut snapshot, HOUR);
            }
            job::put(root.path(), &snapshot);
        }
    }
    let page = Page::of(root.path());
    let ahead = ahead_of_the_second(&page);
    assert!((ahead - 3_600_000_000).abs() < 10_000_000, "{ahead}");
    let (first, second) = (
        page.whole("api/v1/timeline?node=node-0"),
        page.whole("api/v1/timeline?node=node-1"),
    );
    let apart = |time: &serde_json::Value| time["snapshots"][0].as_i64().unwrap();
    assert!(
        (apart(&first) - apart(&second)).abs() < 10_000_000,
        "{first} {second}"
    );
    assert_eq!(second["ahead"], json!(ahead));
    // In the middle all four ranks are there; by the clocks as they are the second node would come an hour later.
    let matrix = page.whole("api/v1/ranks");
    let columns = matrix["columns"].as_array().unwrap();
    let span = columns[columns.len() - 1].as_i64().unwrap() - columns[0].as_i64().unwrap();
    assert!(span < 60_000_000, "{matrix}");
    let middle = &matrix["cells"][columns.len() / 2];
    assert_eq!(middle, &json!([0, 4]), "{matrix}");
}

/// How far the clock of the second node is taken to be ahead, microseconds, once that is known.
fn ahead_of_the_second(page: &Page) -> i64 {
    let begun = Instant::now();
    // It is found out while nobody waits for it.
    loop {
        let run = page.json("api/v1/run");
        match run["nodes"][1]["ahead"].as_i64().unwrap() {
            0 => assert!(begun.elapsed() < DEADLINE, "{run}"),
            ahead => return ahead,
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The snapshot at which a rank of the second node ends.
const END: u64 = 6;

#[test]
fn an_end_on_a_node_whose_clock_is_ahead_is_told_from_its_instant_on() {
    let job = Job {
        nodes: 2,
        ranks: 2,
        snapshots: 12,
        stuck: None,
    };
    let root = tempfile::tempdir().unwrap();
    for sequence in 0..job.snapshots {
        for node in 0..2 {
            let mut snapshot = job::snapshot(job, node, sequence);
            connected(&mut snapshot, node);
            if node == 1 {
                later(&mut snapshot, HOUR);
                let killed = snapshot.processes[1].identity;
                if sequence == END {
                    let segment = ObituarySegment {
                        obituaries: vec![Obituary {
                            rank: Some(3),
                            ..job::obituary(
                                killed,
                                0,
                                snapshot.capture.started_at,
                                Ending::Killed {
                                    core_dumped: false,
                                    signal: 11,
                                },
                            )
                        }],
                        schema_version: model::SCHEMA_VERSION.to_owned(),
                        unseen: Unseen::default(),
                    };
                    let name = snapshot.capture.completed_at.compact();
                    let name = format!("obituaries/{name}-00000001.json.gz");
                    job::put_record(root.path(), &snapshot.task, &name, &segment);
                }
                if sequence >= END {
                    snapshot.processes.truncate(1);
                }
            }
            job::put(root.path(), &snapshot);
        }
    }
    let page = Page::of(root.path());
    ahead_of_the_second(&page);
    let verdict = |sequence: u64| {
        let id = job::snapshot(job, 0, sequence).capture.id;
        page.json(&format!("api/v1/why?node=node-0&at={id}"))
    };
    let (early, late) = (verdict(END - 2), verdict(END + 2));
    assert_ne!(early["why"]["cause"], "rank-dead", "{early}");
    assert_eq!(late["why"]["cause"], "rank-dead", "{late}");
    let summary = late["why"]["summary"].as_str().unwrap();
    assert!(summary.contains("was ended by SIGSEGV"), "{late}");
    assert_eq!(late["why"]["culprit"]["rank"], 3, "{late}");
}
