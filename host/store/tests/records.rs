//! Records beside the snapshots reach the store, or wait in the spool until they can, as snapshots do.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use taskscope_store::{
    Fate, Location, Place, RecordKind, Records, SpoolSettings, Store, StoreError, Summary, Writer,
    push,
};
use testkit::{FakeS3, S3Fault};

mod sample;
mod watched;

use watched::{warnings, watch_warnings};

const PATIENCE: Duration = Duration::from_mins(1);

/// A document such as the store is given.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Document {
    number: u64,
    schema_version: String,
}

fn document(number: u64) -> Document {
    Document {
        number,
        schema_version: "1.0".to_owned(),
    }
}

fn place() -> Place {
    Place::of(&sample::task())
}

fn open(url: &str) -> Store {
    Store::open(&Location::parse(url, Path::new("/nowhere")).unwrap()).unwrap()
}

async fn writer(store: &Store, spool: &Path) -> Writer {
    let spool = SpoolSettings {
        directory: spool.to_owned(),
        max_size_bytes: 1 << 30,
    };
    let opening_time = Duration::from_secs(2);
    let (store, task) = (Some(store.clone()), sample::task());
    Writer::open_within(opening_time, store, place(), task, Vec::new(), spool).await
}

fn keep(records: &Records, kind: RecordKind, number: u64) {
    let fate = records.keep(kind, sample::time(number), &document(number));
    assert_eq!(fate, Fate::Queued);
}

async fn numbers(store: &Store, kind: RecordKind) -> Vec<u64> {
    let mut numbers = Vec::new();
    for key in store.records(&place(), kind, None).await.unwrap() {
        let read: Document = store.record(&key).await.unwrap();
        numbers.push(read.number);
    }
    numbers
}

async fn report(store: &Store) -> u64 {
    let read: Document = store.record(&place().report()).await.unwrap();
    read.number
}

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "{what} did not come true");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How often the report was given to the service.
fn reports(server: &FakeS3) -> usize {
    let asked = server.requests();
    let puts = asked.iter().filter(|it| it.starts_with("PUT"));
    puts.filter(|it| it.contains("/report.json")).count()
}

#[tokio::test]
async fn records_that_a_full_spool_throws_away_are_lost_and_counted() {
    watch_warnings();
    let root = tempfile::tempdir().unwrap();
    let spool = SpoolSettings {
        directory: root.path().to_owned(),
        max_size_bytes: 1,
    };
    let writer = Writer::open(None, place(), sample::task(), Vec::new(), spool).await;
    let records = writer.records();
    assert_eq!(records.lost(), (0, None));
    keep(&records, RecordKind::Samples, 1);
    keep(&records, RecordKind::Obituaries, 2);
    let summary = writer.close(PATIENCE).await;
    assert_eq!((summary.records_lost, summary.records_spooled), (2, 0));
    assert_eq!(records.lost(), (2, Some("the spool was full".to_owned())));
}

#[tokio::test]
async fn what_is_kept_from_any_thread_is_read_back() {
    let (store, spool) = (Store::memory(), tempfile::tempdir().unwrap());
    let writer = writer(&store, spool.path()).await;
    let records = writer.records();
    let thread = std::thread::spawn(move || {
        for number in [2, 0, 1, 1] {
            keep(&records, RecordKind::Samples, number);
        }
        keep(&records, RecordKind::Obituaries, 7);
        for number in 0..3 {
            records.keep_report(&document(number));
        }
    });
    thread.join().unwrap();
    assert_eq!(writer.close(PATIENCE).await, Summary::default());
    assert_eq!(numbers(&store, RecordKind::Samples).await, [0, 1, 2]);
    assert_eq!(numbers(&store, RecordKind::Obituaries).await, [7]);
    assert_eq!(report(&store).await, 2);
    let (place, from) = (place(), Some(sample::time(1)));
    let later = store.records(&place, RecordKind::Samples, from).await;
    assert_eq!(later.unwrap().len(), 2);
    let left: Vec<_> = std::fs::read_dir(spool.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    // Of snapshots there are none, and no index says anything.
    let index = store.index(&place).await;
    assert!(matches!(index, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn two_collectors_never_overwrite_each_others_records() {
    let (store, spool) = (Store::memory(), tempfile::tempdir().unwrap());
    let first = writer(&store, spool.path()).await;
    let second = writer(&store, &spool.path().join("other")).await;
    for (writer, number) in [(&first, 1), (&second, 2)] {
        let records = writer.records();
        records.keep(RecordKind::Samples, sample::time(0), &document(number));
    }
    first.close(PATIENCE).await;
    second.close(PATIENCE).await;
    let found: BTreeSet<u64> = numbers(&store, RecordKind::Samples)
        .await
        .into_iter()
        .collect();
    assert_eq!(found, BTreeSet::from([1, 2]));
}

#[tokio::test]
async fn a_report_that_is_replaced_before_it_is_stored_is_stored_once() {
    let (server, spool) = (FakeS3::start(), tempfile::tempdir().unwrap());
    let store = open(&server.url());
    let writer = writer(&store, spool.path()).await;
    let records = writer.records();
    records.keep_report(&document(0));
    until("a report", async || reports(&server) == 1).await;
    for number in 1..10 {
        records.keep_report(&document(number));
    }
    writer.close(PATIENCE).await;
    // The first at once, then the newest only.
    assert_eq!((reports(&server), report(&store).await), (2, 9));
}

#[tokio::test]
async fn records_of_a_run_whose_store_is_back_at_the_end_are_all_there() {
    let (port, spool) = (FakeS3::free_port(), tempfile::tempdir().unwrap());
    watch_warnings();
    let mut writer = writer(&open(&FakeS3::url_at(port)), spool.path()).await;
    let records = writer.records();
    for number in 0..30 {
        let snapshot = sample::snapshot(number);
        writer.write(&snapshot, sample::time(number)).await;
        keep(&records, RecordKind::Samples, number);
        records.keep_report(&document(number));
        tokio::task::yield_now().await;
    }
    keep(&records, RecordKind::Obituaries, 30);
    let server = FakeS3::start_at(port);
    let summary = writer.close(PATIENCE).await;
    let all_stored = Summary {
        stored: 30,
        ..Summary::default()
    };
    assert_eq!(summary, all_stored);
    let store = open(&server.url());
    let all: Vec<u64> = (0..30).collect();
    assert_eq!(numbers(&store, RecordKind::Samples).await, all);
    assert_eq!(numbers(&store, RecordKind::Obituaries).await, [30]);
    assert_eq!((reports(&server), report(&store).await), (1, 29));
    let lines = warnings();
    assert_eq!(lines.len(), 1, "{lines:#?}");
}

#[tokio::test]
async fn what_a_dead_store_did_not_take_is_brought_by_the_next_collector_or_by_a_push() {
    for is_pushed in [false, true] {
        let (port, spool) = (FakeS3::free_port(), tempfile::tempdir().unwrap());
        let store = open(&FakeS3::url_at(port));
        let first = writer(&store, spool.path()).await;
        let records = first.records();
        keep(&records, RecordKind::Samples, 1);
        keep(&records, RecordKind::Obituaries, 2);
        records.keep_report(&document(3));
        let summary = first.close(Duration::from_millis(300)).await;
        assert_eq!((summary.records_spooled, summary.spooled), (3, 0));
        let server = FakeS3::start_at(port);
        if is_pushed {
            let pushed = push(&store, spool.path()).await.unwrap();
            let counts = (pushed.stored, pushed.records, pushed.left);
            assert_eq!(counts, (0, 3, 0), "{pushed:?}");
        } else {
            let second = writer(&store, spool.path()).await;
            assert_eq!(second.close(PATIENCE).await, Summary::default());
        }
        assert_eq!(numbers(&store, RecordKind::Samples).await, [1]);
        assert_eq!(numbers(&store, RecordKind::Obituaries).await, [2]);
        assert_eq!(report(&store).await, 3);
        assert!(!server.keys().iter().any(|key| key.ends_with("index.json")));
    }
}

#[tokio::test]
async fn a_torn_record_is_set_aside_and_blocks_nobody() {
    let (store, spool) = (Store::memory(), tempfile::tempdir().unwrap());
    watch_warnings();
    let torn = format!(
        "{}/samples/20261129T144054.169782Z-00c0ffee.json.gz",
        place()
    );
    let torn = spool.path().join(torn);
    std::fs::create_dir_all(torn.parent().unwrap()).unwrap();
    std::fs::write(&torn, [0x1f, 0x8b, 8]).unwrap();
    let writer = writer(&store, spool.path()).await;
    keep(&writer.records(), RecordKind::Samples, 1);
    let summary = writer.close(PATIENCE).await;
    assert_eq!((summary.set_aside, summary.records_spooled), (1, 0));
    assert_eq!(numbers(&store, RecordKind::Samples).await, [1]);
    assert!(torn.with_extension("gz.bad").exists());
    assert!(warnings()[0].contains("can never be stored"));
}

#[tokio::test]
async fn a_service_that_hangs_holds_up_no_thread_and_no_snapshot() {
    let (server, spool) = (FakeS3::start(), tempfile::tempdir().unwrap());
    let mut writer = writer(&open(&server.url()), spool.path()).await;
    server.fail("PUT", "", S3Fault::Hang, usize::MAX);
    let records = writer.records();
    for number in 0..40 {
        let snapshot = sample::snapshot(number);
        let written = writer.write(&snapshot, sample::time(number)).await;
        assert_ne!(written.fate, Fate::Lost);
        keep(&records, RecordKind::Samples, number);
        until("a spooled record", async || {
            spooled(spool.path()) == usize::try_from(number).unwrap() + 1
        })
        .await;
    }
    let summary = writer.close(Duration::from_millis(300)).await;
    assert_eq!((summary.spooled, summary.records_spooled), (40, 40));
}

/// How many records of samples are on disk.
fn spooled(spool: &Path) -> usize {
    let folder = spool.join(format!("{}/samples", place()));
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.ends_with(".json.gz")).count()
}

#[tokio::test]
async fn what_cannot_be_encoded_or_comes_too_late_is_counted_and_said() {
    let (store, spool) = (Store::memory(), tempfile::tempdir().unwrap());
    watch_warnings();
    let writer = writer(&store, spool.path()).await;
    let records = writer.records();
    let no_key = std::collections::BTreeMap::from([((1, 2), 3)]);
    assert_eq!(records.keep_report(&no_key), Fate::Lost);
    assert_eq!(writer.close(PATIENCE).await.records_lost, 1);
    assert_eq!(records.keep_report(&document(1)), Fate::Lost);
    let lines = warnings();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].contains("cannot be encoded"), "{lines:#?}");
}
