//! The real writer and reader with real storage servers on loopback.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;
use std::time::Duration;

use taskscope_store::{Key, Location, Place, SpoolSettings, Store, Summary, Writer};
use testkit::{AZURE_ACCOUNT, AZURE_KEY, Answer, BUCKET, HttpServer, StorageServer};

mod sample;

const PATIENCE: Duration = Duration::from_mins(2);

fn open(url: &str) -> Store {
    let location = Location::parse(url, Path::new("/nowhere")).unwrap();
    Store::open(&location).unwrap()
}

async fn writer(store: &Store, spool: &Path) -> Writer {
    let task = sample::task();
    let spool = SpoolSettings {
        directory: spool.to_owned(),
        max_size_bytes: 1 << 30,
    };
    Writer::open(
        Some(store.clone()),
        Place::of(&task),
        task,
        Vec::new(),
        spool,
    )
    .await
}

/// Whether the server honours a write that is to keep what exists. The stand-in for GCS does not know `ifGenerationMatch`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Kept,
    Unknown,
}

/// The same name with other content is another collector's, and stays as it is.
async fn keeps_what_exists(store: &Store, spool: &Path) {
    let mut second = writer(store, spool).await;
    let mut other = sample::snapshot(19);
    "another".clone_into(&mut other.collector_version);
    second.write(&other, sample::time(19)).await;
    let one_aside = Summary {
        set_aside: 1,
        ..Summary::default()
    };
    assert_eq!(second.close(PATIENCE).await, one_aside);
}

/// Twenty snapshots, half of them by a second collector, and one whose name is taken.
async fn write_and_read(url: &str, existing: Existing) {
    let (store, spool) = (open(url), tempfile::tempdir().unwrap());
    let place = Place::of(&sample::task());
    for first in [0, 10] {
        let mut writer = writer(&store, spool.path()).await;
        assert_eq!(writer.next_sequence(), first);
        for sequence in first..first + 10 {
            writer
                .write(&sample::snapshot(sequence), sample::time(sequence))
                .await;
        }
        let summary = writer.close(PATIENCE).await;
        assert_eq!((summary.stored, summary.spooled, summary.lost), (10, 0, 0));
    }
    if existing == Existing::Kept {
        keeps_what_exists(&store, spool.path()).await;
    }

    let reader = open(url);
    let tasks = reader.tasks().await.unwrap();
    assert_eq!((tasks.len(), &tasks[0].attempts[..]), (1, &[0][..]));
    assert_eq!(reader.nodes(&place.task, 0).await.unwrap(), ["node-a"]);
    let index = reader.index(&place).await.unwrap();
    assert_eq!(index.snapshots.len(), 20);
    for (sequence, entry) in (0..).zip(&index.snapshots) {
        let key: Key = entry.key.parse().unwrap();
        assert_eq!(reader.load(&key).await.unwrap(), sample::snapshot(sequence));
    }
    for check in reader.try_operations(PATIENCE).await {
        assert!(matches!(check.result, Some(Ok(()))), "{check:?}");
    }
}

#[tokio::test]
async fn s3() {
    let Some(server) = StorageServer::s3() else {
        return;
    };
    let port = server.port;
    write_and_read(&format!(
        "s3://{BUCKET}/a/prefix?endpoint=http://127.0.0.1:{port}&access_key_id=test&secret_access_key=test"
    ), Existing::Kept)
    .await;
}

#[tokio::test]
async fn azure() {
    let Some(server) = StorageServer::azure() else {
        return;
    };
    let endpoint = server.azure_endpoint();
    write_and_read(&format!(
        "az://{BUCKET}/a/prefix?endpoint={endpoint}&account_name={AZURE_ACCOUNT}&account_key={AZURE_KEY}"
    ), Existing::Kept)
    .await;
}

#[tokio::test]
async fn gcs() {
    let Some(server) = StorageServer::gcs() else {
        return;
    };
    let port = server.port;
    write_and_read(&format!(
        "gs://{BUCKET}/a/prefix?endpoint=http://127.0.0.1:{port}&skip_signature=true&disable_vm_metadata=true\
         &disable_config_load=true"
    ), Existing::Unknown)
    .await;
}

/// Its stand-in does not know `ifGenerationMatch`; Google does, and answers 412 where the object exists.
#[tokio::test]
async fn gcs_is_asked_to_keep_what_exists_and_believed() {
    let is_upload = |line: &str| line.starts_with("POST /upload/") && line.contains("snapshots");
    let server = HttpServer::start(move |request, _| {
        Answer::status(if is_upload(&request.line) { 412 } else { 404 })
    });
    let store = open(&format!(
        "gs://{BUCKET}/a?endpoint={}&skip_signature=true&disable_vm_metadata=true&disable_config_load=true",
        server.url()
    ));
    let spool = tempfile::tempdir().unwrap();
    let mut writer = writer(&store, spool.path()).await;
    writer.write(&sample::snapshot(0), sample::time(0)).await;
    // What is there cannot be read, so nobody knows yet whether it is ours; it waits, and is not written over.
    let summary = writer.close(PATIENCE).await;
    assert_eq!((summary.stored, summary.spooled, summary.lost), (0, 1, 0));
    let received = server.received();
    let uploads = received.iter().filter(|request| is_upload(&request.line));
    let lines: Vec<&str> = uploads.map(|request| request.line.as_str()).collect();
    assert!(!lines.is_empty(), "{received:?}");
    for line in lines {
        assert!(line.contains("&ifGenerationMatch=0"), "{line}");
    }
}
