//! Retention deletes the oldest snapshots, whole, and says so; nothing that is cited, and never the newest.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use taskscope_store::{
    Location, Place, RecordKind, Retention, Since, SpoolSettings, Store, Summary, Writer,
};

mod sample;

const PATIENCE: Duration = Duration::from_mins(1);

fn place() -> Place {
    Place::of(&sample::task())
}

/// Writes snapshots `sequences` with `retention` in force; those of `cited` keep their finding.
async fn write(
    directory: &Path,
    sequences: std::ops::Range<u64>,
    retention: Retention,
    cited: &[u64],
) -> (Store, Summary) {
    let store = Store::open(&Location::parse("store", directory).unwrap()).unwrap();
    let spool = SpoolSettings {
        directory: directory.join("spool"),
        max_size_bytes: 1 << 30,
    };
    let task = sample::task();
    let opening = Writer::open(Some(store.clone()), place(), task, Vec::new(), spool);
    let mut writer = opening.await;
    writer.keep_only(retention);
    for sequence in sequences {
        let mut snapshot = sample::snapshot(sequence);
        if !cited.contains(&sequence) {
            snapshot.findings.clear();
        }
        writer.write(&snapshot, sample::time(sequence)).await;
    }
    let summary = writer.close(PATIENCE).await;
    (store, summary)
}

/// The sequence numbers that the reader tells, each of which can be loaded.
async fn readable(store: &Store) -> Vec<u64> {
    let history = store.history(&place(), Since::Start).await.unwrap();
    let mut sequences = Vec::new();
    for entry in history.entries {
        let key = taskscope_store::Key {
            place: place(),
            id: entry.id,
        };
        store.load(&key).await.unwrap();
        sequences.push(entry.id.sequence);
    }
    sequences
}

fn objects(directory: &Path) -> usize {
    let folder = directory
        .join("store")
        .join(place().to_string())
        .join("snapshots");
    fs::read_dir(folder).unwrap().count()
}

#[tokio::test]
async fn the_oldest_go_and_the_index_says_how_many_and_up_to_which() {
    let root = tempfile::tempdir().unwrap();
    let retention = Retention {
        snapshots: Some(3),
        ..Retention::default()
    };
    let (store, summary) = write(root.path(), 0..10, retention, &[]).await;
    assert_eq!((summary.stored, summary.lost), (10, 0));
    assert_eq!(readable(&store).await, [7, 8, 9]);
    assert_eq!(objects(root.path()), 3);
    let summary = store.summary(&place()).await.unwrap();
    let retired = summary.retired.unwrap();
    assert_eq!((retired.snapshots, retired.up_to.sequence), (7, 6));
    assert_eq!(summary.snapshots, 3);
    // The next collector goes on with both, the sequence number and the deleting.
    let (store, _) = write(root.path(), 10..12, retention, &[]).await;
    assert_eq!(readable(&store).await, [9, 10, 11]);
    let retired = store.summary(&place()).await.unwrap().retired.unwrap();
    assert_eq!((retired.snapshots, retired.up_to.sequence), (9, 8));
}

#[tokio::test]
async fn what_a_finding_cites_and_the_newest_stay() {
    let root = tempfile::tempdir().unwrap();
    let retention = Retention {
        size_bytes: Some(1),
        ..Retention::default()
    };
    let (store, _) = write(root.path(), 0..6, retention, &[1, 3]).await;
    assert_eq!(readable(&store).await, [1, 3, 5]);
    let (store, _) = write(root.path(), 6..7, retention, &[1, 3]).await;
    assert_eq!(readable(&store).await, [1, 3, 6]);
}

#[tokio::test]
async fn what_is_too_old_goes() {
    let root = tempfile::tempdir().unwrap();
    let retention = Retention {
        age: Some(Duration::from_mins(1)),
        ..Retention::default()
    };
    let (store, _) = write(root.path(), 0..3, retention, &[]).await;
    assert_eq!(readable(&store).await, [0, 1, 2]);
    let (store, _) = write(root.path(), 100..101, retention, &[]).await;
    assert_eq!(readable(&store).await, [100]);
}

#[tokio::test]
async fn without_it_nothing_is_deleted() {
    let root = tempfile::tempdir().unwrap();
    let (store, _) = write(root.path(), 0..5, Retention::default(), &[]).await;
    assert_eq!(readable(&store).await, [0, 1, 2, 3, 4]);
    assert_eq!(store.summary(&place()).await.unwrap().retired, None);
}

/// What `taskscope` keeps of the ends of processes, as far as retention looks at it.
fn obituary(last_snapshot: u64) -> serde_json::Value {
    serde_json::json!({
        "obituaries": [{ "last_snapshot": sample::snapshot(last_snapshot).capture.id }],
        "schema_version": "1.0",
    })
}

/// Waits until a record that begins with snapshot `sequence` is stored.
async fn wait_for(store: &Store, kind: RecordKind, sequence: u64) {
    let deadline = std::time::Instant::now() + PATIENCE;
    let from = Some(sample::time(sequence));
    loop {
        let found = store.records(&place(), kind, from).await;
        if found.is_ok_and(|found| !found.is_empty()) {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "no record");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_an_obituary_names_stays_and_samples_go_with_the_snapshots_around_them() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::open(&Location::parse("store", root.path()).unwrap()).unwrap();
    let spool = SpoolSettings {
        directory: root.path().join("spool"),
        max_size_bytes: 1 << 30,
    };
    let by_number = Retention {
        snapshots: Some(5),
        ..Retention::default()
    };
    for part in [0..10, 10..20] {
        let (task, spool) = (sample::task(), spool.clone());
        let mut writer = Writer::open(Some(store.clone()), place(), task, Vec::new(), spool).await;
        writer.keep_only(by_number);
        let records = writer.records();
        for sequence in part {
            let at = sample::time(sequence);
            if sequence == 2 || sequence == 12 {
                records.keep(RecordKind::Obituaries, at, &obituary(sequence));
                wait_for(&store, RecordKind::Obituaries, sequence).await;
            }
            let text = serde_json::json!({ "at": sequence, "schema_version": "1.0" });
            records.keep(RecordKind::Samples, at, &text);
            wait_for(&store, RecordKind::Samples, sequence).await;
            let mut snapshot = sample::snapshot(sequence);
            snapshot.findings.clear();
            writer.write(&snapshot, sample::time(sequence)).await;
        }
        assert_eq!(writer.close(PATIENCE).await.lost, 0);
    }
    assert_eq!(readable(&store).await, [2, 12, 17, 18, 19]);
    let samples = store.records(&place(), RecordKind::Samples, None).await;
    let samples = samples.unwrap();
    let retired = store.index(&place()).await.unwrap().retired.unwrap();
    assert_eq!(retired.samples + samples.len() as u64, 20);
    // Snapshot 16 was retired last: the samples that began with it and all after them stay.
    assert_eq!(samples.len(), 4, "{samples:?}");
}
