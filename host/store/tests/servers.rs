//! The real writer and reader with real storage servers on loopback.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
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

/// What Google does where the stand-in does not: an upload that asks for it (`ifGenerationMatch=0`) is refused where the
/// object exists, when it begins and when it ends. Nothing but that, and reading an object.
fn google() -> HttpServer {
    let objects: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::default();
    HttpServer::start(move |request, _| {
        let mut objects = objects.lock().unwrap();
        let (verb, path) = request.line.split_once(' ').unwrap();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let named = query.split('&').find_map(|it| it.strip_prefix("name="));
        let is_new = query.contains("ifGenerationMatch=0");
        match (verb, named) {
            ("POST" | "PUT", Some(name)) if is_new && objects.contains_key(name) => {
                Answer::status(412)
            }
            ("POST", Some(_)) => {
                let host = request.header("host").unwrap();
                let session = format!("http://{host}/session?{query}");
                Answer::Whole(200, vec![("Location".to_owned(), session)], Vec::new())
            }
            ("PUT", Some(name)) => {
                let size = request.body.len();
                objects.insert(name.to_owned(), request.body.clone());
                let facts = format!(
                    r#"{{"etag": "e", "generation": "1", "size": "{size}", "updated": "2026-11-29T14:40:57Z"}}"#
                );
                Answer::Whole(200, Vec::new(), facts.into_bytes())
            }
            _ => {
                let name = path.split("/o/").nth(1).unwrap_or_default();
                match objects.get(name).filter(|_| query == "alt=media") {
                    Some(content) => Answer::Whole(200, Vec::new(), content.clone()),
                    None => Answer::status(404),
                }
            }
        }
    })
}

#[tokio::test]
async fn at_gcs_what_another_has_written_stays_as_it_is() {
    let server = google();
    let store = open(&format!(
        "gs://{BUCKET}/a?endpoint={}&skip_signature=true&disable_vm_metadata=true&disable_config_load=true",
        server.url()
    ));
    let spool = tempfile::tempdir().unwrap();
    let mut first = writer(&store, spool.path()).await;
    first.write(&sample::snapshot(19), sample::time(19)).await;
    let summary = first.close(PATIENCE).await;
    let asked: Vec<String> = server.received().into_iter().map(|it| it.line).collect();
    assert_eq!((summary.stored, summary.spooled), (1, 0), "{asked:#?}");
    keeps_what_exists(&store, spool.path()).await;
    let key = Key {
        place: Place::of(&sample::task()),
        id: sample::snapshot(19).capture.id,
    };
    assert_eq!(store.load(&key).await.unwrap(), sample::snapshot(19));
    // The same again is no conflict: an answer may have been lost.
    let mut third = writer(&store, spool.path()).await;
    third.write(&sample::snapshot(19), sample::time(19)).await;
    assert_eq!(third.close(PATIENCE).await.stored, 1);
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
