//! An index stays small however long a run is, and nothing is lost of it: not by a restart, a tear or a second collector.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use model::{SnapshotId, Timestamp};
use serde_json::{Value, json};
use taskscope_store::{
    BareIndex, Index, IndexEntry, Key, Location, Place, Since, SpoolSettings, Store, Writer, encode,
};

mod sample;

const PATIENCE: Duration = Duration::from_secs(20);
const TAKEN: u64 = 2000;

fn open(directory: &Path) -> Store {
    Store::open(&Location::parse(".", directory).unwrap()).unwrap()
}

fn place() -> Place {
    Place::of(&sample::task())
}

fn id(sequence: u64) -> SnapshotId {
    sample::snapshot(sequence).capture.id
}

fn entry(sequence: u64) -> IndexEntry {
    let at = sample::time(sequence);
    let key = Key {
        place: place(),
        id: id(sequence),
    };
    IndexEntry {
        capture_id: key.id,
        completed_at: at,
        duration_ms: 1.5,
        findings: 0,
        key: key.to_string(),
        process_count: 4,
        pyspy_process_count: 3,
        python_process_count: 3,
        sequence,
        size_bytes: 1000,
        started_at: at,
        trigger: None,
    }
}

/// Puts an index with `entries` into a store, as an earlier collector left it; their snapshots are not there.
fn put_index(directory: &Path, entries: impl Iterator<Item = u64>) {
    let index = Index {
        boot_id: Some("b0".to_owned()),
        evicted_count: None,
        collector_version: "0.1.0".to_owned(),
        focus_files: Vec::new(),
        node: place().node,
        retired: None,
        root: None,
        schema_version: "1.1".to_owned(),
        sealed: None,
        snapshots: entries.map(entry).collect(),
        task: sample::task(),
        updated_at: sample::time(0),
    };
    let path = directory.join(place().index_key());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, serde_json::to_vec(&index).unwrap()).unwrap();
}

async fn writer(store: &Store, directory: &Path, spool: &str) -> Writer {
    let spool = SpoolSettings {
        directory: directory.join(spool),
        max_size_bytes: 1 << 30,
    };
    let store = Some(store.clone());
    Writer::open(store, place(), sample::task(), Vec::new(), spool).await
}

async fn write(writer: &mut Writer, sequence: u64) {
    let snapshot = sample::snapshot(sequence);
    writer.write(&snapshot, sample::time(sequence)).await;
}

async fn sequences(store: &Store, since: Since) -> Vec<u64> {
    let history = store.history(&place(), since).await.unwrap();
    history
        .entries
        .iter()
        .map(|entry| entry.id.sequence)
        .collect()
}

fn stored_index(directory: &Path) -> Value {
    let text = fs::read(directory.join(place().index_key())).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn segments(directory: &Path) -> Vec<String> {
    let folder = directory.join(place().to_string()).join("index");
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A store with as many entries as an index has at most, to which a writer added three snapshots.
async fn sealed_store(directory: &Path) -> Store {
    put_index(directory, 0..256);
    let store = open(directory);
    let mut writer = writer(&store, directory, ".spool").await;
    assert_eq!(writer.next_sequence(), 256);
    for sequence in 256..259 {
        write(&mut writer, sequence).await;
    }
    assert_eq!(writer.close(PATIENCE).await.stored, 3);
    store
}

#[tokio::test]
async fn beyond_so_many_entries_the_older_half_is_sealed_and_still_read() {
    let root = tempfile::tempdir().unwrap();
    let store = sealed_store(root.path()).await;
    let index = stored_index(root.path());
    assert_eq!(index["snapshots"].as_array().unwrap().len(), 131);
    assert_eq!(index["snapshots"][0]["sequence"], 128);
    let sealed = json!({
        "first_at": sample::time(0), "last": id(127), "segments": 1, "size_bytes": 128_000, "snapshots": 128,
    });
    assert_eq!(index["sealed"], sealed);
    assert_eq!(segments(root.path()).len(), 1);

    let all: Vec<u64> = (0..259).collect();
    assert_eq!(sequences(&store, Since::Start).await, all);
    assert_eq!(sequences(&store, Since::Recent).await, &all[128..]);
    let late = Since::Time(sample::time(200));
    assert_eq!(sequences(&store, late).await, &all[128..]);
    let early = Since::Time(sample::time(127));
    assert_eq!(sequences(&store, early).await, all);
    let recent = store.history(&place(), Since::Recent).await.unwrap();
    assert_eq!(recent.older, 128);
    let summary = store.summary(&place()).await.unwrap();
    assert_eq!((summary.snapshots, summary.newest), (259, Some(id(258))));
    assert_eq!(summary.first_at, Some(sample::time(0)));
}

#[tokio::test]
async fn a_torn_index_is_made_of_its_segments_and_the_snapshots() {
    let root = tempfile::tempdir().unwrap();
    let store = sealed_store(root.path()).await;
    fs::write(root.path().join(place().index_key()), "{\"torn").unwrap();
    // The snapshots of the unsealed entries were never there, but for the last three; those of the others cannot be opened.
    for sequence in 0..128 {
        let key = Key {
            place: place(),
            id: id(sequence),
        };
        fs::write(root.path().join(key.to_string()), "torn").unwrap();
    }
    let left: Vec<u64> = (0..128).chain(256..259).collect();
    assert_eq!(sequences(&store, Since::Recent).await, left);
    let summary = store.summary(&place()).await.unwrap();
    assert_eq!((summary.snapshots, summary.newest), (131, Some(id(258))));

    let mut writer = writer(&store, root.path(), ".spool").await;
    assert_eq!(writer.next_sequence(), 259);
    write(&mut writer, 259).await;
    writer.close(PATIENCE).await;
    let index = stored_index(root.path());
    let entries = index["snapshots"].as_array().unwrap();
    let unsealed: Vec<_> = entries.iter().map(|entry| &entry["sequence"]).collect();
    assert_eq!(unsealed, [256, 257, 258, 259]);
    assert_eq!(index["sealed"]["snapshots"], 128);
    assert_eq!(segments(root.path()).len(), 1);
}

#[tokio::test]
async fn an_index_that_is_behind_is_made_good_by_the_next_collector() {
    let root = tempfile::tempdir().unwrap();
    put_index(root.path(), 0..2);
    for sequence in 2..5 {
        let snapshot = sample::snapshot(sequence);
        let key = Key {
            place: place(),
            id: snapshot.capture.id,
        };
        let path = root.path().join(key.to_string());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, encode(&snapshot).unwrap()).unwrap();
    }
    let store = open(root.path());
    assert_eq!(sequences(&store, Since::Recent).await, [0, 1, 2, 3, 4]);
    let summary = store.summary(&place()).await.unwrap();
    assert_eq!((summary.snapshots, summary.processes), (5, Some(1)));
    let writer = writer(&store, root.path(), ".spool").await;
    assert_eq!(writer.next_sequence(), 5);
    writer.close(PATIENCE).await;
    let index = stored_index(root.path());
    assert_eq!(index["snapshots"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn two_collectors_that_seal_at_once_lose_nothing() {
    let root = tempfile::tempdir().unwrap();
    put_index(root.path(), 0..255);
    let store = open(root.path());
    let mut first = writer(&store, root.path(), ".first").await;
    let mut second = writer(&store, root.path(), ".second").await;
    for round in 0..4 {
        write(&mut first, 256 + round * 2).await;
        write(&mut second, 257 + round * 2).await;
    }
    let (first, second) = tokio::join!(first.close(PATIENCE), second.close(PATIENCE));
    assert_eq!((first.stored, second.stored), (4, 4));
    let all: Vec<u64> = (0..255).chain(256..264).collect();
    assert_eq!(sequences(&store, Since::Start).await, all);
    // And the next one finds the same.
    writer(&store, root.path(), ".third")
        .await
        .close(PATIENCE)
        .await;
    assert_eq!(sequences(&store, Since::Start).await, all);
    assert_eq!(store.summary(&place()).await.unwrap().snapshots, 263);
}

#[tokio::test]
async fn a_clock_that_is_set_back_changes_nothing_of_the_order() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    let mut writer = writer(&store, root.path(), ".spool").await;
    for sequence in 0..4_u64 {
        let mut snapshot = sample::snapshot(sequence);
        let hour = 3_600_000_000;
        let back = if sequence < 2 { 0 } else { hour };
        let at = sample::time(sequence).as_microseconds() - back;
        let at = Timestamp::from_microseconds(at).unwrap();
        snapshot.capture.started_at = at;
        snapshot.capture.id.stamp = at;
        writer.write(&snapshot, at).await;
    }
    writer.close(PATIENCE).await;
    assert_eq!(sequences(&store, Since::Recent).await, [0, 1, 2, 3]);
    let summary = store.summary(&place()).await.unwrap();
    assert_eq!(summary.snapshots, 4);
    assert_eq!(summary.newest.map(|id| id.sequence), Some(3));
}

/// Takes [`TAKEN`] snapshots of `size_bytes`; returns how much of the index was written, and how many snapshots the stored
/// one lacked at most, and listed at least once there were so many.
async fn take_many(interval: Duration, size_bytes: usize) -> (u64, u64, u64) {
    let root = tempfile::tempdir().unwrap();
    let mut snapshot = sample::snapshot(0);
    let mut index = BareIndex::new(open(root.path()), &snapshot);
    let (mut written, mut waited, mut lacked, mut lacked_at_most) = (0, interval, 0, 0);
    let mut listed_at_least = u64::MAX;
    for sequence in 0..TAKEN {
        let at = sample::time(0).after(interval * u32::try_from(sequence).unwrap());
        snapshot.capture.sequence = sequence;
        snapshot.capture.id = SnapshotId {
            stamp: at,
            sequence,
        };
        index.add(&snapshot, size_bytes, at);
        waited += interval;
        lacked += 1;
        if waited >= index.wait() {
            assert!(index.write().await);
            (waited, lacked) = (Duration::ZERO, 0);
            written += fs::metadata(root.path().join(place().index_key()))
                .unwrap()
                .len();
            if sequence >= 128 {
                let listed = stored_index(root.path())["snapshots"]
                    .as_array()
                    .unwrap()
                    .len();
                listed_at_least = listed_at_least.min(listed as u64);
            }
        }
        lacked_at_most = lacked_at_most.max(lacked);
    }
    (written, lacked_at_most, listed_at_least)
}

#[tokio::test]
async fn what_is_written_of_an_index_is_a_tenth_of_the_snapshots_at_any_interval() {
    for seconds in [10, 120] {
        let (written, lacked, listed) = take_many(Duration::from_secs(seconds), 35_400).await;
        let snapshots = TAKEN * 35_400;
        assert!(written * 10 <= snapshots, "{written} of {snapshots}");
        assert!(lacked <= 40, "{lacked}");
        assert!(listed >= 100, "{listed}");
    }
    // Small ones outweigh it seldom: then it is written once an hour, and that is little.
    let (written, lacked, listed) = take_many(Duration::from_mins(2), 1500).await;
    let hours = TAKEN / 30 + 1;
    assert!(written <= hours * 105_000, "{written}");
    assert!(lacked <= 30, "{lacked}");
    assert!(listed >= 100, "{listed}");
}
