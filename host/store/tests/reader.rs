//! What is in a store is listed and read, whoever wrote it and whatever state it was left in.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::io::Write;
use std::path::Path;

use taskscope_store::{Key, Location, Place, Store, StoreError, encode};

mod sample;

const SCHEMA_1_0: &str = include_str!("fixtures/schema-1.0.json");
const SCHEMA_1_0_INDEX: &str = include_str!("fixtures/schema-1.0-index.json");
const OLD_KEY: &str = "TrainFlow/31/train/9/attempt-1/diagnostics/node-gpu-7/snapshots/20260301T102030.218600Z-000004.json.gz";

fn open(directory: &Path) -> Store {
    let location = Location::parse(".", directory).unwrap();
    Store::open(&location).unwrap()
}

fn put(directory: &Path, key: &str, bytes: &[u8]) {
    let path = directory.join(key);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Puts a snapshot of the sample task, without an index.
fn put_snapshot(directory: &Path, sequence: u64) -> Key {
    let snapshot = sample::snapshot(sequence);
    let key = Key {
        place: Place::of(&snapshot.task),
        id: snapshot.capture.id,
    };
    put(directory, &key.to_string(), &encode(&snapshot).unwrap());
    key
}

fn put_old_store(directory: &Path) -> Place {
    let key: Key = OLD_KEY.parse().unwrap();
    put(directory, OLD_KEY, &gzip(SCHEMA_1_0));
    put(
        directory,
        &key.place.index_key(),
        SCHEMA_1_0_INDEX.as_bytes(),
    );
    key.place
}

#[tokio::test]
async fn snapshots_that_no_index_lists_tell_of_themselves() {
    let root = tempfile::tempdir().unwrap();
    let whole = put_snapshot(root.path(), 3);
    let torn = put_snapshot(root.path(), 4);
    put(root.path(), &torn.to_string(), b"torn");
    let mut gone = torn.clone();
    gone.id.sequence = 5;
    let told = open(root.path())
        .own_facts(vec![whole.clone(), torn.clone(), gone])
        .await;
    let snapshot = sample::snapshot(3);
    let facts = told[0].as_ref().unwrap();
    assert_eq!(facts.process_count, snapshot.processes.len() as u64);
    assert_eq!(facts.size_bytes, encode(&snapshot).unwrap().len() as u64);
    assert_eq!(facts.started_at, snapshot.capture.started_at);
    assert_eq!(facts.trigger, snapshot.capture.trigger);
    assert!(
        matches!(told[1], Err(StoreError::Format { .. })),
        "{told:?}"
    );
    assert!(
        matches!(told[2], Err(StoreError::NotFound { .. })),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_store_of_metaflow_pyspy_is_listed_and_read() {
    let root = tempfile::tempdir().unwrap();
    let place = put_old_store(root.path());
    // Metaflow's own files lie beside it.
    put(root.path(), "TrainFlow/31/train/9/0.task_begin.json", b"{}");
    put(root.path(), "TrainFlow/data/ab/abcdef", b"artifact");
    put(root.path(), "TrainFlow/31/train/9/_meta/x.json", b"{}");
    let store = open(root.path());

    let tasks = store.tasks().await.unwrap();
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    assert_eq!(
        (&tasks[0].task, &tasks[0].attempts[..]),
        (&place.task, &[1][..])
    );
    assert_eq!(store.nodes(&place.task, 1).await.unwrap(), ["gpu-7"]);
    let index = store.index(&place).await.unwrap();
    assert_eq!(index.schema_version, "1.0");
    assert_eq!(index.snapshots[0].key, OLD_KEY);
    assert_eq!(
        index.snapshots[0].size_bytes, 999,
        "the stored entry is used"
    );

    let key = store.newest(&place).await.unwrap().unwrap();
    let snapshot = store.load(&key).await.unwrap();
    assert_eq!(snapshot.task.flow.as_deref(), Some("TrainFlow"));
    assert_eq!(
        snapshot.capture.started_at.to_string(),
        "2026-03-01T10:20:30.000000Z"
    );
    let process = &snapshot.processes[0];
    assert_eq!(process.cmdline[3], "Zo\u{eb}");
    let traces = &process.pyspy.as_ref().unwrap().traces;
    assert_eq!(
        (traces[0].frames[0].line, traces[1].os_thread_id),
        (21, None)
    );
    assert_eq!(snapshot.processes[1].exe, None);
    assert_eq!(snapshot.gaps, []);
}

#[tokio::test]
async fn the_index_built_from_snapshots_says_what_the_lost_one_said() {
    let root = tempfile::tempdir().unwrap();
    let place = put_old_store(root.path());
    let store = open(root.path());
    let stored = store.index(&place).await.unwrap();
    let index_path = root.path().join(place.index_key());
    let size_bytes = fs::metadata(root.path().join(OLD_KEY)).unwrap().len();

    fs::remove_file(&index_path).unwrap();
    let of_missing = store.index(&place).await.unwrap();
    fs::write(&index_path, &SCHEMA_1_0_INDEX[..200]).unwrap();
    let of_torn = store.index(&place).await.unwrap();

    assert_eq!(of_missing, of_torn);
    assert_eq!(of_missing.task, stored.task);
    let mut entry = stored.snapshots[0].clone();
    entry.size_bytes = size_bytes;
    assert_eq!(of_missing.snapshots, [entry]);
}

#[tokio::test]
async fn snapshots_that_the_index_lacks_are_added_and_unreadable_ones_left_out() {
    let root = tempfile::tempdir().unwrap();
    let place = put_old_store(root.path());
    let torn = OLD_KEY.replace("-000004", "-000005");
    put(root.path(), &torn, b"torn");
    let mut newer = OLD_KEY.replace("-000004", "-000006");
    put(
        root.path(),
        &newer,
        &gzip(&SCHEMA_1_0.replace("\"sequence\":4", "\"sequence\":6")),
    );
    put(
        root.path(),
        &OLD_KEY.replace("2026", "notes-2026"),
        b"a stranger",
    );
    let index = open(root.path()).index(&place).await.unwrap();
    let keys: Vec<_> = index
        .snapshots
        .iter()
        .map(|entry| entry.key.as_str())
        .collect();
    assert_eq!(keys, [OLD_KEY, newer.as_mut_str()]);
}

#[tokio::test]
async fn the_task_with_the_newest_snapshot_comes_first() {
    let root = tempfile::tempdir().unwrap();
    put_old_store(root.path());
    let key = put_snapshot(root.path(), 5);
    // A task below another one's folder, of which nothing but an attempt is there.
    put(
        root.path(),
        "Flow/17/train/3/part/attempt-0/run.json",
        b"{}",
    );
    put(root.path(), "Flow/17/train/3/attempt-12/run.json", b"{}");
    put(root.path(), "Flow/17/train/3/attempt-x/run.json", b"{}");
    let store = open(root.path());
    let tasks = store.tasks().await.unwrap();
    let paths: Vec<_> = tasks.iter().map(|entry| entry.task.as_str()).collect();
    assert_eq!(
        paths,
        [
            "TrainFlow/31/train/9",
            "Flow/17/train/3",
            "Flow/17/train/3/part"
        ]
    );
    assert_eq!(tasks[1].attempts, [0, 12]);
    let next = async |task: &str, node: &str| {
        store
            .next_attempt(&task.parse().unwrap(), node)
            .await
            .unwrap()
    };
    assert_eq!(next("Flow/17/train/3", &key.place.node).await, 1);
    assert_eq!(next("Flow/17/train/3", "another").await, 0);
    assert_eq!(next("new", &key.place.node).await, 0);
    assert_eq!(store.nodes(&key.place.task, 12).await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn segments_that_begin_with_a_dot_are_never_listed() {
    let root = tempfile::tempdir().unwrap();
    let key = put_snapshot(&root.path().join(".spool"), 5);
    put_snapshot(&root.path().join(".incoming"), 5);
    assert_eq!(open(root.path()).tasks().await.unwrap(), []);
    put_snapshot(root.path(), 5);
    let diagnostics = format!("{}/attempt-0/diagnostics", key.place.task);
    put(
        root.path(),
        &format!("{diagnostics}/.node-b/index.json"),
        b"{}",
    );
    let store = open(root.path());
    assert_eq!(store.tasks().await.unwrap().len(), 1);
    assert_eq!(store.nodes(&key.place.task, 0).await.unwrap(), ["node-a"]);
}

#[tokio::test]
async fn what_is_not_there_is_said_by_name() {
    let root = tempfile::tempdir().unwrap();
    let key: Key = OLD_KEY.parse().unwrap();
    let store = open(root.path());
    let error = store.load(&key).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
    assert!(error.to_string().contains(OLD_KEY), "{error}");
    let error = store.index(&key.place).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
    assert_eq!(store.newest(&key.place).await.unwrap(), None);

    let store = open(&root.path().join("nowhere"));
    let error = store.tasks().await.unwrap_err();
    assert!(matches!(error, StoreError::NoStore { .. }), "{error:?}");
    assert_eq!(
        store.next_attempt(&key.place.task, "node-a").await.unwrap(),
        0
    );
}

#[tokio::test]
async fn a_later_major_version_is_refused_and_not_taken_for_torn() {
    let root = tempfile::tempdir().unwrap();
    let place = put_old_store(root.path());
    let later = SCHEMA_1_0_INDEX.replace("\"1.0\"", "\"2.0\"");
    put(root.path(), &place.index_key(), later.as_bytes());
    put(
        root.path(),
        OLD_KEY,
        &gzip(&SCHEMA_1_0.replace("\"1.0\"", "\"2.0\"")),
    );
    let store = open(root.path());
    let of_index = store.index(&place).await.unwrap_err();
    let of_snapshot = store.load(&OLD_KEY.parse().unwrap()).await.unwrap_err();
    for error in [of_index, of_snapshot] {
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("schema version 2.0"), "{cause}");
    }
}
