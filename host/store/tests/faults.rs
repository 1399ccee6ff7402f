//! Whatever the store, the disk or the clock does: as many snapshots can be read as were taken.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::print_stderr, reason = "a test says how much it tried")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use model::{Snapshot, SnapshotId, Timestamp};
use taskscope_store::{
    Fate, Key, Location, Place, Since, SpoolSettings, Store, StoreError, Summary, Writer, encode,
    push, spool_address,
};
use testkit::{FakeS3, S3Fault};

mod sample;
mod watched;

use watched::{warnings, watch_warnings};

const PATIENCE: Duration = Duration::from_mins(1);
/// How often what depends on the instant is tried; this variable says otherwise.
const REPETITIONS: u64 = 20;
const REPETITIONS_VARIABLE: &str = "TASKSCOPE_REPEAT";
/// Tells a process of a test that it is the collector to be killed: the spool and the store.
const VICTIM_VARIABLE: &str = "TASKSCOPE_TEST_VICTIM";

fn open(url: &str) -> Store {
    let location = Location::parse(url, Path::new("/nowhere")).unwrap();
    Store::open(&location).unwrap()
}

fn place() -> Place {
    Place::of(&sample::task())
}

fn settings(spool: &Path) -> SpoolSettings {
    SpoolSettings {
        directory: spool.to_owned(),
        max_size_bytes: 1 << 30,
    }
}

async fn writer(store: &Store, spool: &Path) -> Writer {
    let task = sample::task();
    Writer::open(
        Some(store.clone()),
        place(),
        task,
        Vec::new(),
        settings(spool),
    )
    .await
}

async fn take(writer: &mut Writer, sequence: u64) {
    let snapshot = sample::snapshot(sequence);
    let begun = Instant::now();
    let written = writer.write(&snapshot, sample::time(sequence)).await;
    assert_ne!(written.fate, Fate::Lost);
    assert!(begun.elapsed() < PATIENCE, "an upload delays nobody");
}

/// How many snapshots a reader finds and can open, by a connection of its own.
async fn readable(url: &str) -> usize {
    let store = open(url);
    let history = match store.history(&place(), Since::Start).await {
        Ok(history) => history,
        Err(StoreError::NotFound { .. }) => return 0,
        Err(error) => panic!("{error:?}"),
    };
    for entry in &history.entries {
        let key = Key {
            place: place(),
            id: entry.id,
        };
        let snapshot = store.load(&key).await.unwrap();
        assert_eq!(snapshot.capture.id, entry.id);
    }
    history.entries.len()
}

fn stored(stored: u64) -> Summary {
    Summary {
        stored,
        ..Summary::default()
    }
}

/// Takes five snapshots while requests of `verb` with `part` go wrong so often; all must be in the store at the end.
async fn five_through(verb: &'static str, part: &'static str, fault: S3Fault, times: usize) {
    let (server, spool) = (FakeS3::start(), tempfile::tempdir().unwrap());
    server.fail(verb, part, fault, times);
    let mut writer = writer(&open(&server.url()), spool.path()).await;
    for sequence in 0..5 {
        take(&mut writer, sequence).await;
    }
    assert_eq!(writer.close(PATIENCE).await, stored(5));
    assert_eq!(readable(&server.url()).await, 5);
    let asked = server.requests();
    let asked = asked
        .iter()
        .filter(|it| it.starts_with(verb) && it.contains(part));
    assert!(asked.count() > times, "every fault had its turn");
}

#[tokio::test]
async fn a_service_that_is_overloaded_three_times_costs_nothing() {
    watch_warnings();
    let slow_down = S3Fault::Answer(503, "SlowDown");
    five_through("PUT", "snapshots", slow_down, 3).await;
    assert_eq!(
        warnings(),
        [""; 0],
        "it was asked again within the operation"
    );
}

#[tokio::test]
async fn a_request_that_timed_out_at_the_service_is_asked_again() {
    watch_warnings();
    let timed_out = S3Fault::Answer(400, "RequestTimeout");
    five_through("PUT", "snapshots", timed_out, 3).await;
    five_through("LIST", "", timed_out, 1).await;
    assert_eq!(
        warnings(),
        [""; 0],
        "it was asked again within the operation"
    );
}

#[tokio::test]
async fn connections_that_are_cut_in_the_middle_cost_nothing() {
    five_through("PUT", "snapshots", S3Fault::Cut, 2).await;
    five_through("GET", "index", S3Fault::Cut, 2).await;
    // More than one operation tries.
    five_through("PUT", "snapshots", S3Fault::Cut, 6).await;
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_is_no_conflict() {
    five_through("PUT", "snapshots", S3Fault::LoseReply, 3).await;
    five_through("PUT", "index", S3Fault::LoseReply, 2).await;
}

#[tokio::test]
async fn a_service_that_cannot_keep_what_exists_is_looked_at_first() {
    let (server, spool) = (FakeS3::start(), tempfile::tempdir().unwrap());
    let store = open(&server.url());
    server.fail(
        "PUT",
        "snapshots",
        S3Fault::Answer(501, "NotImplemented"),
        1,
    );
    let mut first = writer(&store, spool.path()).await;
    take(&mut first, 0).await;
    assert_eq!(first.close(PATIENCE).await, stored(1));
    assert_eq!(readable(&server.url()).await, 1);
}

#[tokio::test]
async fn an_index_that_fails_for_long_is_made_good_and_hides_nothing_meanwhile() {
    let (server, spool) = (FakeS3::start(), tempfile::tempdir().unwrap());
    let mut writer = writer(&open(&server.url()), spool.path()).await;
    server.fail("PUT", "index", S3Fault::Answer(503, "SlowDown"), usize::MAX);
    for sequence in 0..4 {
        take(&mut writer, sequence).await;
    }
    let snapshots = || {
        let keys = server.keys();
        keys.iter()
            .filter(|key| key.contains("/snapshots/"))
            .count()
    };
    until(|| snapshots() == 4).await;
    assert!(!server.keys().iter().any(|key| key.ends_with("index.json")));
    assert_eq!(readable(&server.url()).await, 4, "by listing");
    server.heal();
    assert_eq!(writer.close(PATIENCE).await, stored(4));
    assert!(server.keys().iter().any(|key| key.ends_with("index.json")));
    assert_eq!(readable(&server.url()).await, 4);
}

async fn until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "it did not come true");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_store_that_is_back_at_the_end_gets_everything() {
    let (port, spool) = (FakeS3::free_port(), tempfile::tempdir().unwrap());
    watch_warnings();
    let url = FakeS3::url_at(port);
    let mut writer = writer(&open(&url), spool.path()).await;
    for sequence in 0..30 {
        take(&mut writer, sequence).await;
    }
    let server = FakeS3::start_at(port);
    assert_eq!(writer.close(PATIENCE).await, stored(30));
    assert_eq!(readable(&server.url()).await, 30);
    let lines = warnings();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].contains("The store takes no snapshots"),
        "{lines:#?}"
    );
}

#[tokio::test]
async fn a_store_that_never_comes_back_is_left_to_the_next_attempt() {
    let (port, spool) = (FakeS3::free_port(), tempfile::tempdir().unwrap());
    let store = open(&FakeS3::url_at(port));
    let mut first = writer(&store, spool.path()).await;
    for sequence in 0..5 {
        take(&mut first, sequence).await;
    }
    let summary = first.close(Duration::from_secs(1)).await;
    assert_eq!((summary.stored, summary.spooled, summary.lost), (0, 5, 0));

    let server = FakeS3::start_at(port);
    let mut task = sample::task();
    task.attempt = 1;
    let next = Place::of(&task);
    let second = Writer::open(Some(store), next, task, Vec::new(), settings(spool.path())).await;
    until(|| {
        server
            .keys()
            .iter()
            .any(|key| key.ends_with("attempt-0/diagnostics/node-node-a/index.json"))
    })
    .await;
    let recovered = Summary {
        recovered: 5,
        ..Summary::default()
    };
    assert_eq!(second.close(PATIENCE).await, recovered);
    assert_eq!(readable(&server.url()).await, 5);
    let left = std::fs::read_dir(spool.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["belongs-to"]);
}

#[tokio::test]
async fn a_store_that_hangs_holds_nobody_up_and_is_made_good_by_a_push() {
    let (server, spool) = (FakeS3::start(), tempfile::tempdir().unwrap());
    let store = open(&server.url());
    let mut writer = writer(&store, spool.path()).await;
    for verb in ["PUT", "GET", "HEAD", "LIST"] {
        server.fail(verb, "", S3Fault::Hang, usize::MAX);
    }
    for sequence in 0..40 {
        take(&mut writer, sequence).await;
    }
    let begun = Instant::now();
    let summary = writer.close(Duration::from_millis(300)).await;
    assert!(begun.elapsed() < PATIENCE);
    assert_eq!((summary.stored, summary.spooled, summary.lost), (0, 40, 0));
    server.heal();

    let stranger = spool.path().join("letter.txt");
    std::fs::write(&stranger, "Dear reader").unwrap();
    assert!(
        spool_address(spool.path())
            .unwrap()
            .starts_with("s3://bucket/prefix?endpoint=")
    );
    assert!(!spool_address(spool.path()).unwrap().contains("hunter2"));
    let pushed = push(&store, spool.path()).await.unwrap();
    assert_eq!((pushed.stored, pushed.left), (40, 0), "{pushed:?}");
    assert_eq!(pushed.strangers, [stranger]);
    assert_eq!(readable(&server.url()).await, 40);
}

#[tokio::test]
async fn what_a_living_collector_has_is_left_to_it_by_a_push() {
    let (port, spool) = (FakeS3::free_port(), tempfile::tempdir().unwrap());
    let store = open(&FakeS3::url_at(port));
    let mut writer = writer(&store, spool.path()).await;
    take(&mut writer, 0).await;
    let server = FakeS3::start();
    let elsewhere = open(&server.url());
    let pushed = push(&elsewhere, spool.path()).await.unwrap();
    assert_eq!(
        (pushed.stored, pushed.left, pushed.busy),
        (0, 1, vec![place()])
    );
    writer.close(Duration::ZERO).await;
    let pushed = push(&elsewhere, spool.path()).await.unwrap();
    assert_eq!((pushed.stored, pushed.left), (1, 0), "{pushed:?}");
}

/// A small file system of its own, which is full soon.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "taskscope-test"])
            .arg(directory.path())
            .stderr(Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(directory));
        }
        // A line to stderr: a skipped test must not look like a passed one.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: a full disk: no tmpfs can be mounted here."
        );
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_costs_nothing_while_the_store_works() {
    let Some(disk) = SmallDisk::new() else { return };
    watch_warnings();
    std::fs::write(disk.0.path().join("filler"), vec![0; 64 << 10]).unwrap();
    let server = FakeS3::start();
    let mut writer = writer(&open(&server.url()), &disk.0.path().join("spool")).await;
    for sequence in 0..5 {
        take(&mut writer, sequence).await;
    }
    assert_eq!(writer.close(PATIENCE).await, stored(5));
    assert_eq!(readable(&server.url()).await, 5);
    let lines = warnings();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("No space left on device"), "{lines:#?}");
}

#[tokio::test]
async fn a_full_disk_and_a_dead_store_lose_what_they_must_and_count_it() {
    let Some(disk) = SmallDisk::new() else { return };
    let spool = disk.0.path().join("spool");
    let port = FakeS3::free_port();
    let mut writer = writer(&open(&FakeS3::url_at(port)), &spool).await;
    for sequence in 0..40 {
        let snapshot = sample::snapshot(sequence);
        writer.write(&snapshot, sample::time(sequence)).await;
    }
    let summary = writer.close(Duration::from_secs(1)).await;
    assert_eq!(summary.spooled + summary.lost, 40, "{summary:?}");
    assert!(summary.spooled > 0 && summary.lost > 0, "{summary:?}");
    let server = FakeS3::start_at(port);
    let pushed = push(&open(&server.url()), &spool).await.unwrap();
    assert_eq!(pushed.stored, summary.spooled, "{pushed:?}");
    assert_eq!(readable(&server.url()).await as u64, summary.spooled);
}

#[tokio::test]
async fn what_a_full_spool_throws_away_is_counted_in_the_index() {
    let (port, spool) = (FakeS3::free_port(), tempfile::tempdir().unwrap());
    let url = FakeS3::url_at(port);
    let size_bytes = encode(&sample::snapshot(0)).unwrap().len() as u64;
    let small = SpoolSettings {
        max_size_bytes: size_bytes * 7 / 2,
        ..settings(spool.path())
    };
    let task = sample::task();
    let mut writer = Writer::open(Some(open(&url)), place(), task, Vec::new(), small).await;
    for sequence in 0..8 {
        // The first of them wait in memory too; what is thrown away is what nobody has.
        take(&mut writer, sequence).await;
    }
    let summary = writer.close(Duration::from_millis(200)).await;
    assert_eq!((summary.spooled, summary.evicted), (3, 5));
    let server = FakeS3::start_at(port);
    let pushed = push(&open(&url), spool.path()).await.unwrap();
    assert_eq!(pushed.stored, 3);
    let index = open(&server.url()).index(&place()).await.unwrap();
    assert_eq!((index.snapshots.len(), index.evicted_count), (3, Some(5)));
    push(&open(&url), spool.path()).await.unwrap();
    let index = open(&server.url()).index(&place()).await.unwrap();
    assert_eq!(index.evicted_count, Some(5), "each is counted once");
}

/// Snapshot `sequence`, taken when the clock was `hours` off.
fn snapshot_at(sequence: u64, hours: i64) -> Snapshot {
    let mut snapshot = sample::snapshot(sequence);
    let moved = |time: Timestamp| {
        let microseconds = time.as_microseconds() + hours * 3_600_000_000;
        Timestamp::from_microseconds(microseconds).unwrap()
    };
    let capture = &mut snapshot.capture;
    capture.started_at = moved(capture.started_at);
    capture.completed_at = moved(capture.completed_at);
    capture.id = SnapshotId {
        stamp: moved(capture.id.stamp),
        sequence,
    };
    snapshot
}

#[tokio::test]
async fn a_clock_that_is_set_back_and_forth_neither_loses_nor_disorders() {
    let (port, spool) = (FakeS3::free_port(), tempfile::tempdir().unwrap());
    let url = FakeS3::url_at(port);
    let store = open(&url);
    let mut first = writer(&store, spool.path()).await;
    for (sequence, hours) in (0..6).zip([0, 0, -1, -1, 1, 1]) {
        let snapshot = snapshot_at(sequence, hours);
        let now = snapshot.capture.completed_at;
        first.write(&snapshot, now).await;
    }
    first.close(Duration::ZERO).await;
    let server = FakeS3::start_at(port);
    let mut second = writer(&store, spool.path()).await;
    assert_eq!(second.next_sequence(), 6);
    let snapshot = snapshot_at(6, -1);
    second.write(&snapshot, snapshot.capture.completed_at).await;
    second.close(PATIENCE).await;
    assert_eq!(readable(&server.url()).await, 7);
    let index = open(&url).index(&place()).await.unwrap();
    let sequences: Vec<u64> = index.snapshots.iter().map(|entry| entry.sequence).collect();
    assert_eq!(sequences, [0, 1, 2, 3, 4, 5, 6]);
}

/// Runs through several tries of a store that refuses; returns the warnings.
async fn refused(verbs: &[&'static str], status: u16, code: &'static str) -> Vec<String> {
    watch_warnings();
    let (server, spool) = (FakeS3::start(), tempfile::tempdir().unwrap());
    for verb in verbs {
        server.fail(verb, "", S3Fault::Answer(status, code), usize::MAX);
    }
    let store = open(&server.url());
    let mut writer = writer(&store, spool.path()).await;
    for sequence in 0..5 {
        take(&mut writer, sequence).await;
    }
    // It is tried again and again, and says nothing new.
    let asked = || {
        server
            .requests()
            .iter()
            .filter(|it| it.starts_with("PUT"))
            .count()
    };
    until(|| asked() >= 3 || verbs.len() > 1 && server.requests().len() > 3).await;
    let summary = writer.close(Duration::from_secs(5)).await;
    assert_eq!((summary.stored, summary.spooled, summary.lost), (0, 5, 0));
    let lines = warnings();
    server.heal();
    let pushed = push(&store, spool.path()).await.unwrap();
    assert_eq!(pushed.stored, 5, "{pushed:?}");
    assert_eq!(readable(&server.url()).await, 5);
    lines
}

#[tokio::test]
async fn a_store_that_can_only_be_read_is_one_clear_line() {
    let lines = refused(&["PUT"], 403, "AccessDenied").await;
    assert_eq!(lines.len(), 1, "{lines:#?}");
    for word in [
        "AccessDenied: as the test asked",
        "grant these credentials",
        "s3://bucket/prefix",
    ] {
        assert!(lines[0].contains(word), "{lines:#?}");
    }
}

#[tokio::test]
async fn wrong_credentials_are_one_clear_line_and_not_shown() {
    let all = ["PUT", "GET", "HEAD", "LIST"];
    let lines = refused(&all, 403, "InvalidAccessKeyId").await;
    assert_eq!(lines.len(), 1, "{lines:#?}");
    for word in ["InvalidAccessKeyId", "correct the key"] {
        assert!(lines[0].contains(word), "{lines:#?}");
    }
    assert!(!lines[0].contains("hunter2"), "{lines:#?}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "how patient a run of the tests is to be, and which part a process plays, is said in its environment"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The collector that is killed: says each sequence number when `write` has returned.
#[tokio::test]
async fn victim() {
    let Some(text) = variable(VICTIM_VARIABLE) else {
        return;
    };
    let (spool, url) = text.split_once(' ').unwrap();
    let mut writer = writer(&open(url), Path::new(spool)).await;
    loop {
        let sequence = writer.next_sequence();
        take(&mut writer, sequence).await;
        let mut stdout = std::io::stdout();
        writeln!(stdout, "taken {sequence}").unwrap();
        stdout.flush().unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Starts the victim, kills it that long after its first snapshot, and returns how many it took.
fn kill_one(spool: &Path, url: &str, after: Duration) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture", "--test-threads=1"])
        .env(VICTIM_VARIABLE, format!("{} {url}", spool.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let reading = BufReader::new(child.stdout.take().unwrap());
    let mut lines = reading.lines().map_while(Result::ok);
    let first = lines.find(|line| line.contains("taken ")).unwrap();
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    let last = lines.filter(|line| line.starts_with("taken ")).last();
    let last = last.unwrap_or(first);
    last.rsplit(' ').next().unwrap().parse::<u64>().unwrap() + 1
}

#[tokio::test]
async fn a_collector_that_is_killed_at_any_instant_loses_nothing_that_it_took() {
    let (server, spool) = (FakeS3::start(), tempfile::tempdir().unwrap());
    let repetitions = variable(REPETITIONS_VARIABLE).map_or(REPETITIONS, |it| it.parse().unwrap());
    let mut taken = 0;
    for repetition in 0..repetitions {
        // Half of the time the store is slow, so that there is something in the spool.
        if repetition % 2 == 0 {
            server.fail("PUT", "snapshots", S3Fault::Answer(503, "SlowDown"), 7);
        }
        let after = Duration::from_micros(repetition * 7_919_000 % 150_000);
        let (directory, url) = (PathBuf::from(spool.path()), server.url());
        let count = tokio::task::spawn_blocking(move || kill_one(&directory, &url, after));
        taken = count.await.unwrap();
        server.heal();
    }
    assert!(taken >= repetitions, "{taken}");
    let last = writer(&open(&server.url()), spool.path()).await;
    last.close(PATIENCE).await;
    // One more may have been on its way to disk when its collector died, each time.
    let readable = readable(&server.url()).await as u64;
    let store = open(&server.url());
    let history = store.history(&place(), Since::Start).await.unwrap();
    let sequences: BTreeSet<u64> = history.entries.iter().map(|it| it.id.sequence).collect();
    assert!(
        (0..taken).all(|sequence| sequences.contains(&sequence)),
        "{taken} {sequences:?}"
    );
    assert!(readable <= taken + 1, "{readable} of {taken}");
    eprintln!("{repetitions} kills, {taken} snapshots taken, {readable} readable");
}
