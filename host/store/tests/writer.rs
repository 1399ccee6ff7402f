//! Snapshots reach the store, or wait in the spool until they can, whatever the store is like.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};

use taskscope_store::{Fate, Key, Location, Place, SpoolSettings, Store, Summary, Writer, encode};

mod sample;

const PATIENCE: Duration = Duration::from_secs(20);

fn open(directory: &Path) -> Store {
    Store::open(&Location::parse(".", directory).unwrap()).unwrap()
}

fn place() -> Place {
    Place::of(&sample::task())
}

fn key(sequence: u64) -> Key {
    Key {
        place: place(),
        id: sample::snapshot(sequence).capture.id,
    }
}

/// A store directory, which is not there yet, and a spool beside it.
struct Sandbox {
    _root: tempfile::TempDir,
    store: PathBuf,
    spool: PathBuf,
}

impl Sandbox {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        Self {
            store: root.path().join("store"),
            spool: root.path().join("spool"),
            _root: root,
        }
    }

    async fn writer(&self, store: &Store) -> Writer {
        self.writer_with(Some(store.clone())).await
    }

    async fn writer_with(&self, store: Option<Store>) -> Writer {
        let spool = SpoolSettings {
            directory: self.spool.clone(),
            max_size_bytes: 1 << 30,
        };
        Writer::open(store, place(), sample::task(), Vec::new(), spool).await
    }

    fn put_in_spool(&self, key: &Key, bytes: &[u8]) {
        let path = self.spool.join(key.to_string());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn spooled(&self, key: &Key) -> bool {
        self.spool.join(key.to_string()).exists()
    }
}

async fn write(writer: &mut Writer, sequence: u64) -> Fate {
    let snapshot = sample::snapshot(sequence);
    let written = writer.write(&snapshot, sample::time(sequence)).await;
    assert_eq!(written.key, key(sequence));
    written.fate
}

async fn sequences(store: &Store) -> Vec<u64> {
    let index = store.index(&place()).await.unwrap();
    index.snapshots.iter().map(|entry| entry.sequence).collect()
}

/// Returns the sequence numbers in the stored index, without what the reader would add.
fn stored_index(directory: &Path) -> Option<Vec<u64>> {
    let text = fs::read(directory.join(place().index_key())).ok()?;
    let index: taskscope_store::Index = serde_json::from_slice(&text).ok()?;
    Some(index.snapshots.iter().map(|entry| entry.sequence).collect())
}

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "{what} did not come true");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn stored(stored: u64) -> Summary {
    Summary {
        stored,
        ..Summary::default()
    }
}

thread_local! {
    static LOGGED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Begins to note what is logged at `warn` and above on each thread; a test and its tasks share one. One subscriber
/// for all, because what `tracing` caches for a call site is lost on others when tests come and go.
fn watch_warnings() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::WARN)
            .with_writer(|| OfThisThread)
            .init();
    });
    LOGGED.with_borrow_mut(Vec::clear);
}

/// Returns the lines that this thread has logged.
fn warnings() -> Vec<String> {
    let text = LOGGED.with_borrow(|bytes| String::from_utf8(bytes.clone()).unwrap());
    text.lines().map(str::to_owned).collect()
}

struct OfThisThread;

impl Write for OfThisThread {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOGGED.with_borrow_mut(|logged| logged.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_is_written_is_read_back() {
    let (sandbox, store) = (Sandbox::new(), Store::memory());
    let mut writer = sandbox.writer(&store).await;
    assert_eq!(writer.next_sequence(), 0);
    for sequence in 0..3 {
        assert_eq!(write(&mut writer, sequence).await, Fate::Queued);
    }
    assert_eq!(writer.next_sequence(), 3);
    assert_eq!(writer.close(PATIENCE).await, stored(3));

    let index = store.index(&place()).await.unwrap();
    assert_eq!(index.task, sample::task());
    assert_eq!(index.boot_id.as_deref(), Some("b0"));
    assert!(index.updated_at >= sample::time(2) && index.updated_at < sample::time(60));
    let newest = store.newest(&place()).await.unwrap();
    assert_eq!(newest, Some(key(2)));
    let snapshot = store.load(&key(2)).await.unwrap();
    assert_eq!(snapshot, sample::snapshot(2));
    assert!((0..3).all(|sequence| !sandbox.spooled(&key(sequence))));
}

#[tokio::test]
async fn a_directory_holds_nothing_but_the_documents() {
    let sandbox = Sandbox::new();
    let store = open(&sandbox.store);
    let mut writer = sandbox.writer(&store).await;
    write(&mut writer, 0).await;
    assert_eq!(writer.close(PATIENCE).await, stored(1));
    let left: Vec<_> = fs::read_dir(sandbox.store.join(".incoming"))
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let bytes = fs::read(sandbox.store.join(key(0).to_string())).unwrap();
    assert_eq!(bytes, encode(&sample::snapshot(0)).unwrap());
    let index = store.index(&place()).await.unwrap();
    assert_eq!(index.snapshots[0].size_bytes, bytes.len() as u64);
    assert_eq!(stored_index(&sandbox.store), Some(vec![0]));
}

#[tokio::test]
async fn a_later_writer_continues_where_the_index_ends_even_a_torn_one() {
    let sandbox = Sandbox::new();
    let store = open(&sandbox.store);
    let mut writer = sandbox.writer(&store).await;
    write(&mut writer, 0).await;
    write(&mut writer, 7).await;
    writer.close(PATIENCE).await;

    let writer = sandbox.writer(&store).await;
    assert_eq!(writer.next_sequence(), 8);
    writer.close(PATIENCE).await;

    fs::write(sandbox.store.join(place().index_key()), "{\"torn").unwrap();
    let mut writer = sandbox.writer(&store).await;
    assert_eq!(writer.next_sequence(), 8);
    write(&mut writer, 8).await;
    writer.close(PATIENCE).await;
    assert_eq!(stored_index(&sandbox.store), Some(vec![0, 7, 8]));
}

#[tokio::test]
async fn a_store_that_cannot_be_made_is_one_warning_and_the_spool_keeps_all() {
    let sandbox = Sandbox::new();
    watch_warnings();
    fs::write(&sandbox.store, "a file").unwrap();
    let store = open(&sandbox.store.join("below"));
    let mut writer = sandbox.writer(&store).await;
    for sequence in 0..3 {
        write(&mut writer, sequence).await;
    }
    let summary = writer.close(PATIENCE).await;

    assert_eq!(
        summary,
        Summary {
            spooled: 3,
            ..Summary::default()
        }
    );
    assert!((0..3).all(|sequence| sandbox.spooled(&key(sequence))));
    let lines = warnings();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    let spool = sandbox.spool.display().to_string();
    let path = sandbox.store.join("below").display().to_string();
    for word in ["Not a directory", &spool, &path] {
        assert!(lines[0].contains(word), "{word} is not in {}", lines[0]);
    }

    // The next writer of the place finds them, and counts on after them.
    let store = Store::memory();
    let writer = sandbox.writer(&store).await;
    assert_eq!(writer.next_sequence(), 3);
    assert_eq!(writer.close(PATIENCE).await, stored(3));
    assert_eq!(sequences(&store).await, [0, 1, 2]);
    let left = fs::read_dir(&sandbox.spool).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["belongs-to"]);
}

#[tokio::test]
async fn the_spool_empties_by_itself_when_the_store_recovers() {
    let sandbox = Sandbox::new();
    fs::write(&sandbox.store, "a file").unwrap();
    let store = open(&sandbox.store);
    let mut writer = sandbox.writer(&store).await;
    write(&mut writer, 0).await;
    write(&mut writer, 1).await;
    until("spooling", async || sandbox.spooled(&key(1))).await;
    fs::remove_file(&sandbox.store).unwrap();
    until("recovery", async || {
        stored_index(&sandbox.store) == Some(vec![0, 1])
    })
    .await;
    write(&mut writer, 2).await;
    until("storing", async || {
        stored_index(&sandbox.store) == Some(vec![0, 1, 2])
    })
    .await;
    assert_eq!(writer.close(PATIENCE).await, stored(3));
}

#[tokio::test]
async fn a_store_that_breaks_during_the_run_loses_nothing() {
    let sandbox = Sandbox::new();
    let store = open(&sandbox.store);
    let mut writer = sandbox.writer(&store).await;
    write(&mut writer, 0).await;
    until("storing", async || {
        stored_index(&sandbox.store) == Some(vec![0])
    })
    .await;
    let away = sandbox.store.with_extension("away");
    fs::rename(&sandbox.store, &away).unwrap();
    fs::write(&sandbox.store, "a file").unwrap();
    write(&mut writer, 1).await;
    until("spooling", async || sandbox.spooled(&key(1))).await;
    fs::remove_file(&sandbox.store).unwrap();
    fs::rename(&away, &sandbox.store).unwrap();
    until("recovery", async || {
        stored_index(&sandbox.store) == Some(vec![0, 1])
    })
    .await;
    assert_eq!(writer.close(PATIENCE).await, stored(2));
}

#[tokio::test]
async fn a_poisoned_file_does_not_block_later_ones() {
    let (sandbox, store) = (Sandbox::new(), Store::memory());
    sandbox.put_in_spool(&key(0), b"poison");
    sandbox.put_in_spool(&key(1), &encode(&sample::snapshot(1)).unwrap());
    let writer = sandbox.writer(&store).await;
    assert_eq!(writer.next_sequence(), 2);
    let summary = writer.close(PATIENCE).await;
    assert_eq!(
        summary,
        Summary {
            set_aside: 1,
            ..stored(1)
        }
    );
    assert_eq!(sequences(&store).await, [1]);
    assert!(sandbox.spool.join(format!("{}.bad", key(0))).exists());
}

#[tokio::test]
async fn an_object_that_the_store_refuses_does_not_block_later_ones() {
    let sandbox = Sandbox::new();
    let store = open(&sandbox.store);
    for sequence in 0..3 {
        sandbox.put_in_spool(
            &key(sequence),
            &encode(&sample::snapshot(sequence)).unwrap(),
        );
    }
    // A directory in its place: the service answers with an error that looks like one of its own.
    let blocked = sandbox.store.join(key(0).to_string()).join("x");
    fs::create_dir_all(blocked).unwrap();
    let mut writer = sandbox.writer(&store).await;
    until("draining", async || {
        stored_index(&sandbox.store) == Some(vec![1, 2])
    })
    .await;
    write(&mut writer, 3).await;
    until("storing", async || {
        stored_index(&sandbox.store) == Some(vec![1, 2, 3])
    })
    .await;
    writer.close(PATIENCE).await;
    assert!(!sandbox.spooled(&key(1)) && !sandbox.spooled(&key(3)));
}

#[tokio::test]
async fn another_snapshot_of_the_same_name_is_never_overwritten() {
    let sandbox = Sandbox::new();
    let store = open(&sandbox.store);
    let path = sandbox.store.join(key(0).to_string());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "another collector's").unwrap();
    let mut writer = sandbox.writer(&store).await;
    write(&mut writer, 0).await;
    write(&mut writer, 1).await;
    let summary = writer.close(PATIENCE).await;
    assert_eq!(
        summary,
        Summary {
            set_aside: 1,
            ..stored(1)
        }
    );
    assert_eq!(fs::read(&path).unwrap(), b"another collector's");
    assert_eq!(stored_index(&sandbox.store), Some(vec![1]));
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_is_no_conflict() {
    let (sandbox, store) = (Sandbox::new(), Store::memory());
    for _ in 0..2 {
        let mut writer = sandbox.writer(&store).await;
        write(&mut writer, 0).await;
        assert_eq!(writer.close(PATIENCE).await, stored(1));
    }
    assert_eq!(sequences(&store).await, [0]);
}

#[tokio::test]
async fn an_index_that_cannot_be_written_is_made_good_later() {
    let sandbox = Sandbox::new();
    watch_warnings();
    let store = open(&sandbox.store);
    let mut writer = sandbox.writer(&store).await;
    let index = sandbox.store.join(place().index_key());
    fs::create_dir_all(index.join("x")).unwrap();
    write(&mut writer, 0).await;
    write(&mut writer, 1).await;
    let second = sandbox.store.join(key(1).to_string());
    until("storing", async || second.exists()).await;
    until("the warning", async || !warnings().is_empty()).await;
    fs::remove_dir_all(&index).unwrap();
    until("the index", async || {
        stored_index(&sandbox.store) == Some(vec![0, 1])
    })
    .await;
    assert_eq!(writer.close(PATIENCE).await, stored(2));
    assert_eq!(warnings().len(), 1, "{:#?}", warnings());
}

#[tokio::test]
async fn two_collectors_at_one_place_keep_each_others_entries() {
    let (sandbox, other) = (Sandbox::new(), Sandbox::new());
    let store = open(&sandbox.store);
    let mut first = sandbox.writer(&store).await;
    let mut second = other.writer(&store).await;
    write(&mut first, 0).await;
    until("the first", async || {
        stored_index(&sandbox.store) == Some(vec![0])
    })
    .await;
    write(&mut second, 1).await;
    until("the second", async || {
        stored_index(&sandbox.store) == Some(vec![0, 1])
    })
    .await;
    write(&mut first, 2).await;
    until("the third", async || {
        stored_index(&sandbox.store) == Some(vec![0, 1, 2])
    })
    .await;
    assert_eq!(first.close(PATIENCE).await, stored(2));
    assert_eq!(second.close(PATIENCE).await, stored(1));
}

#[tokio::test]
async fn a_writer_that_gets_ahead_of_the_store_uses_the_spool() {
    let sandbox = Sandbox::new();
    let store = open(&sandbox.store);
    let mut writer = sandbox.writer(&store).await;
    let mut fates = Vec::new();
    for sequence in 0..40 {
        fates.push(write(&mut writer, sequence).await);
    }
    assert!(
        fates.contains(&Fate::Spooled) && !fates.contains(&Fate::Lost),
        "{fates:?}"
    );
    assert_eq!(writer.close(PATIENCE).await, stored(40));
    assert_eq!(stored_index(&sandbox.store), Some((0..40).collect()));
}

#[tokio::test]
async fn what_is_not_stored_by_the_deadline_is_in_the_spool() {
    let sandbox = Sandbox::new();
    let store = open(&sandbox.store);
    let mut writer = sandbox.writer(&store).await;
    for sequence in 0..10 {
        write(&mut writer, sequence).await;
    }
    let summary = writer.close(Duration::ZERO).await;
    assert_eq!(
        (summary.stored + summary.spooled, summary.lost),
        (10, 0),
        "{summary:?}"
    );
    assert!(summary.spooled > 0, "{summary:?}");

    let writer = sandbox.writer(&store).await;
    writer.close(PATIENCE).await;
    assert_eq!(stored_index(&sandbox.store), Some((0..10).collect()));
}

#[tokio::test]
async fn without_a_store_everything_is_spooled() {
    let sandbox = Sandbox::new();
    let mut writer = sandbox.writer_with(None).await;
    write(&mut writer, 0).await;
    let summary = writer.close(PATIENCE).await;
    assert_eq!(
        summary,
        Summary {
            spooled: 1,
            ..Summary::default()
        }
    );
}

#[tokio::test]
async fn without_store_and_spool_the_loss_is_counted_and_said() {
    let sandbox = Sandbox::new();
    fs::write(&sandbox.spool, "a file").unwrap();
    watch_warnings();
    let mut writer = sandbox.writer_with(None).await;
    write(&mut writer, 0).await;
    let summary = writer.close(PATIENCE).await;
    assert_eq!(
        summary,
        Summary {
            lost: 1,
            ..Summary::default()
        }
    );
    let lines = warnings();
    assert!(
        lines[0].contains("The spool takes no snapshots"),
        "{lines:?}"
    );
    assert!(lines[1].contains("it is lost"), "{lines:?}");
}

#[tokio::test]
async fn a_full_spool_throws_the_oldest_away_and_says_so_once() {
    let sandbox = Sandbox::new();
    watch_warnings();
    let size_bytes = encode(&sample::snapshot(0)).unwrap().len() as u64;
    let spool = SpoolSettings {
        directory: sandbox.spool.clone(),
        max_size_bytes: size_bytes * 5 / 2,
    };
    let mut writer = Writer::open(None, place(), sample::task(), Vec::new(), spool).await;
    for sequence in 0..5 {
        write(&mut writer, sequence).await;
    }
    let summary = writer.close(PATIENCE).await;
    assert_eq!((summary.evicted, summary.spooled, summary.lost), (3, 2, 0));
    assert!(sandbox.spooled(&key(4)) && !sandbox.spooled(&key(0)));
    assert_eq!(warnings().len(), 1, "{:#?}", warnings());
}
