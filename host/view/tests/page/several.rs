//! What several processes and nodes are to each other: waits in a circle, and clocks that disagree.

use std::time::{Duration, Instant};

use model::{Endpoint, EndpointKind, FileLock, LockWaiter, Snapshot, SystemCall, TcpFacts};
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
                let capture = &mut snapshot.capture;
                capture.started_at = capture.started_at.after(HOUR);
                capture.completed_at = capture.completed_at.after(HOUR);
                capture.id.stamp = capture.id.stamp.after(HOUR);
            }
            job::put(root.path(), &snapshot);
        }
    }
    let page = Page::of(root.path());
    let begun = Instant::now();
    // It is found out while nobody waits for it.
    let ahead = loop {
        let run = page.json("api/v1/run");
        match run["nodes"][1]["ahead"].as_i64().unwrap() {
            0 => assert!(begun.elapsed() < DEADLINE, "{run}"),
            ahead => break ahead,
        }
        std::thread::sleep(Duration::from_millis(50));
    };
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
