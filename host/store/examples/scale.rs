//! Makes the stores of `tests/bench/scale.py`, by the code that a collector uses.
//!
//! `scale job DIR NODES SNAPSHOTS` writes a task of many nodes: an entry for each snapshot, one in a thousand stored.
//! `scale month DIR DAYS` writes the index of one node as a collector does that takes a snapshot each 10 s, and prints how
//! many bytes were uploaded for it by each day.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench, whose output is its table"
)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::Snapshot;
use taskscope_store::{BareIndex, Location, Place, Store, encode};

#[path = "../tests/sample/mod.rs"]
mod sample;

/// The size of a stored snapshot of 64 processes.
const SIZE_BYTES: usize = 35_400;
const INTERVAL: Duration = Duration::from_secs(10);
/// A snapshot is stored for one entry in so many.
const STORED: u64 = 1000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["job", directory, nodes, snapshots] => {
            let (nodes, snapshots) = (nodes.parse().unwrap(), snapshots.parse().unwrap());
            job(directory, nodes, snapshots);
        }
        ["month", directory, days] => month(directory, days.parse().unwrap()).await,
        _ => {
            println!("usage: scale job DIR NODES SNAPSHOTS | scale month DIR DAYS");
        }
    }
}

fn store(directory: &str) -> Store {
    let location = Location::parse(directory, Path::new("/")).unwrap();
    Store::open(&location).unwrap()
}

fn snapshot(node: &str) -> Snapshot {
    let mut snapshot = sample::snapshot(0);
    snapshot.findings.clear();
    node.clone_into(&mut snapshot.task.node);
    let one = snapshot.processes[0].clone();
    snapshot.processes = vec![one; 64];
    snapshot
}

/// Makes it the snapshot of `sequence`, one interval after the one before.
fn number(snapshot: &mut Snapshot, sequence: u64) {
    let at = sample::time(0).after(INTERVAL * u32::try_from(sequence).unwrap());
    snapshot.capture.started_at = at;
    snapshot.capture.completed_at = at;
    snapshot.capture.id.stamp = at;
    snapshot.capture.sequence = sequence;
    snapshot.capture.id.sequence = sequence;
}

/// Makes the nodes, as many at a time as there are processors; each is a collector of its own, which knows of no other.
fn job(directory: &str, nodes: u64, snapshots: u64) {
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut builder = tokio::runtime::Builder::new_current_thread();
                let runtime = builder.enable_all().build().unwrap();
                let store = store(directory);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= nodes {
                        break;
                    }
                    runtime.block_on(node(&store, number, snapshots));
                }
            });
        }
    });
    let bytes = encode(&snapshot("a")).unwrap().len();
    println!("{nodes} nodes, {snapshots} snapshots each; one of those stored has {bytes} bytes");
}

async fn node(store: &Store, number: u64, snapshots: u64) {
    let mut snapshot = snapshot(&format!("node-{number:05}"));
    let mut index = BareIndex::new(store.clone(), &snapshot);
    for sequence in 0..snapshots {
        self::number(&mut snapshot, sequence);
        index.add(&snapshot, SIZE_BYTES, snapshot.capture.completed_at);
        if (number * snapshots + sequence).is_multiple_of(STORED) {
            index.put(&snapshot).await.unwrap();
        }
        if sequence % 500 == 499 {
            assert!(index.write().await);
        }
    }
    assert!(index.write().await);
}

async fn month(directory: &str, days: u64) {
    let (store, mut snapshot) = (store(directory), snapshot("a"));
    let place = PathBuf::from(directory).join(Place::of(&snapshot.task).to_string());
    let mut index = BareIndex::new(store, &snapshot);
    let (mut index_bytes, mut writes, mut waited) = (0, 0, INTERVAL);
    let per_day = 86_400 / INTERVAL.as_secs();
    println!("| day | snapshots | writes of index.json | MB of it | segments | MB of them |");
    println!("|---|---|---|---|---|---|");
    for sequence in 0..days * per_day {
        number(&mut snapshot, sequence);
        index.add(&snapshot, SIZE_BYTES, snapshot.capture.completed_at);
        waited += INTERVAL;
        if waited >= index.wait() {
            assert!(index.write().await);
            index_bytes += std::fs::metadata(place.join("index.json")).unwrap().len();
            (writes, waited) = (writes + 1, Duration::ZERO);
        }
        let (day, is_over) = (
            (sequence + 1) / per_day,
            (sequence + 1).is_multiple_of(per_day),
        );
        if is_over && (day.is_power_of_two() || day == days) {
            let (segments, bytes) = segments(&place.join("index"));
            let (snapshots, megabytes) = (sequence + 1, index_bytes / 1_000_000);
            let sealed = format!("{}.{}", bytes / 1_000_000, bytes / 100_000 % 10);
            println!("| {day} | {snapshots} | {writes} | {megabytes} | {segments} | {sealed} |");
        }
    }
}

fn segments(folder: &Path) -> (usize, u64) {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes: Vec<u64> = files.map(|file| file.metadata().unwrap().len()).collect();
    (sizes.len(), sizes.iter().sum())
}
