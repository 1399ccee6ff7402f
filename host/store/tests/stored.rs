//! Stores of every format there ever was are read: one directory each below `tests/fixtures/stored`, none forgotten.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use model::Snapshot;
use taskscope_store::{Key, Location, Place, Since, Store};

/// What must be found in a store of a format.
struct Format {
    directory: &'static str,
    place: &'static str,
    /// The sequence numbers of its snapshots, each of which is there.
    sequences: &'static [u64],
    first_process: i32,
    /// How many threads wait for a futex, in each snapshot.
    futex_waiters: usize,
    schema_version: &'static str,
}

const FORMATS: [Format; 3] = [
    Format {
        directory: "metaflow_pyspy-1.0",
        place: "TrainFlow/31/train/9/attempt-1/diagnostics/node-gpu-7",
        sequences: &[4],
        first_process: 812,
        futex_waiters: 0,
        schema_version: "1.0",
    },
    Format {
        directory: "taskscope-1.1",
        place: "Flow/17/train/3/attempt-0/diagnostics/node-node-a",
        sequences: &[0, 1, 2, 3, 4, 5],
        first_process: 4711,
        futex_waiters: 1,
        schema_version: "1.1",
    },
    Format {
        directory: "taskscope-1.1-folded",
        place: "Flow/17/train/3/attempt-0/diagnostics/node-node-a",
        sequences: &[0, 1, 2],
        first_process: 4711,
        futex_waiters: 4,
        schema_version: "1.1",
    },
];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/stored")
}

#[test]
fn no_stored_format_is_forgotten() {
    let tested: BTreeSet<String> = FORMATS.iter().map(|it| it.directory.to_owned()).collect();
    let there = std::fs::read_dir(fixtures()).unwrap();
    let there: BTreeSet<String> = there
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "README.md")
        .collect();
    assert_eq!(there, tested);
}

#[tokio::test]
async fn every_stored_format_is_read() {
    for format in FORMATS {
        let directory = fixtures().join(format.directory);
        let store = Store::open(&Location::parse(".", &directory).unwrap()).unwrap();
        let place: Place = format.place.parse().unwrap();
        let tasks = store.tasks().await.unwrap();
        assert_eq!(tasks.len(), 1, "{tasks:?}");
        assert_eq!(tasks[0].task, place.task);
        let nodes = store.nodes(&place.task, place.attempt).await.unwrap();
        assert_eq!(nodes, [place.node.as_str()]);
        let summary = store.summary(&place).await.unwrap();
        assert_eq!(summary.snapshots, format.sequences.len() as u64);
        let history = store.history(&place, Since::Start).await.unwrap();
        let ids = history.entries.iter().map(|entry| entry.id);
        let sequences: Vec<u64> = ids.clone().map(|id| id.sequence).collect();
        assert_eq!(sequences, format.sequences, "{}", format.directory);
        assert!(history.entries.iter().all(|entry| entry.listed.is_some()));
        for id in ids {
            let key = Key {
                place: place.clone(),
                id,
            };
            check(&store.load(&key).await.unwrap(), &format);
        }
    }
}

fn check(snapshot: &Snapshot, format: &Format) {
    assert_eq!(snapshot.schema_version, format.schema_version);
    assert_eq!(snapshot.processes[0].pid, format.first_process);
    let stacks = snapshot.processes[0].pyspy.as_ref().unwrap();
    assert!(!stacks.traces[0].frames.is_empty());
    let waiters = snapshot.ipc.futexes.iter().map(|futex| futex.waiters.len());
    assert_eq!(waiters.sum::<usize>(), format.futex_waiters);
}
