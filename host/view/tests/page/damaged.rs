//! Stores in any state: what cannot be read is a part that says so, and the rest is shown.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use taskscope_view::Shown;

use crate::client::{DEADLINE, Page};
use crate::job::{self, Job};

const JOB: Job = Job {
    nodes: 1,
    ranks: 2,
    snapshots: 6,
    stuck: Some(1),
};

/// Every address that reads the store.
const PATHS: [&str; 17] = [
    "",
    "runs",
    "part/verdict",
    "part/stacks?with=latest",
    "part/processes",
    "part/ipc",
    "process?process=1000:100",
    "value?pointer=/capture",
    "value?pointer=/obituaries&record=obituaries/20261129T144104.169782Z-00000001.json.gz",
    "value?pointer=/stages&record=report.json",
    "api/v1/runs",
    "api/v1/run",
    "api/v1/timeline",
    "api/v1/ranks",
    "api/v1/why",
    "api/v1/why?at=20261129T144056.169782Z-000002",
    "api/v1/snapshot",
];

/// Asks for everything: no answer may be a fault of ours.
#[track_caller]
fn ask_for_all(page: &Page) {
    for path in PATHS {
        let status = page.get(path).status;
        assert!([200, 400, 404, 503].contains(&status), "{path}: {status}");
    }
}

#[test]
fn a_torn_snapshot_is_a_marked_cell_and_the_others_are_shown() {
    let root = tempfile::tempdir().unwrap();
    job::write(root.path(), JOB);
    let torn = job::snapshot(JOB, 0, 3);
    let whole = store::encode(&torn).unwrap();
    job::put_bytes(root.path(), &torn, &whole[..whole.len() / 2]);
    let page = Page::of(root.path());
    let matrix = page.whole("api/v1/ranks");
    assert_eq!(matrix["cells"][3], serde_json::json!([-3, 2]));
    assert_eq!(matrix["cells"][4], serde_json::json!([0, 1, 1, 1]));
    let time = page.whole("api/v1/timeline");
    let trouble = time["troubles"][0].as_str().unwrap();
    assert!(
        trouble.contains("torn") && trouble.contains("000003"),
        "{trouble}"
    );
    assert!(page.get("part/verdict").text().contains("not read: "));
    ask_for_all(&page);
}

#[test]
fn foreign_and_huge_objects_are_marked() {
    let root = tempfile::tempdir().unwrap();
    job::write(root.path(), JOB);
    let later = br#"{"schema_version": "2.0", "shape": "another"}"#;
    job::put_bytes(root.path(), &job::snapshot(JOB, 0, 6), later);
    job::put_bytes(root.path(), &job::snapshot(JOB, 0, 7), b"");
    job::put_bytes(root.path(), &job::snapshot(JOB, 0, 8), &bomb());
    let page = Page::of(root.path());
    let matrix = page.whole("api/v1/ranks");
    for column in 6..9 {
        assert_eq!(
            matrix["cells"][column],
            serde_json::json!([-3, 2]),
            "{column}"
        );
    }
    let snapshot = page.get("api/v1/snapshot");
    assert_eq!(snapshot.status, 503);
    assert!(
        snapshot.text().contains("larger than"),
        "{}",
        snapshot.text()
    );
    ask_for_all(&page);
}

#[test]
fn huge_snapshots_hold_up_no_other_request() {
    let root = tempfile::tempdir().unwrap();
    let job = Job { nodes: 2, ..JOB };
    for sequence in 0..SMALL {
        job::put(root.path(), &job::snapshot(job, 1, sequence));
    }
    for sequence in 0..HUGE {
        let huge = job::snapshot(job, 0, sequence);
        let mut text = serde_json::to_vec(&huge).unwrap();
        text.pop();
        job::put_bytes(root.path(), &huge, &padded(&text, 24, b"}"));
    }
    // One thread answers: what decodes on it holds up all.
    let page = Page::with(root.path(), Shown::default(), 1);
    let snapshot = |node: u64, sequence: u64| {
        let id = job::snapshot(job, node, sequence).capture.id;
        let reply = page.get(&format!("api/v1/snapshot?node=node-{node}&at={id}"));
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    snapshot(1, 0);
    let left = AtomicU64::new(HUGE);
    let beside = std::thread::scope(|scope| {
        for sequence in 0..HUGE {
            let (snapshot, left) = (&snapshot, &left);
            scope.spawn(move || {
                snapshot(0, sequence);
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        let small = (1..SMALL).take_while(|sequence| {
            snapshot(1, *sequence);
            left.load(Ordering::Relaxed) > 0
        });
        small.count()
    });
    // Where each waits for a huge one, no more come than there are huge ones, and one or two.
    assert!(
        u64::try_from(beside).unwrap() > 3 * HUGE,
        "{beside} answers came meanwhile"
    );
}

/// Snapshots of which each is decoded anew: many small ones, and a few huge ones.
const SMALL: u64 = 60;
const HUGE: u64 = 2;

/// 200 MB of blanks within a document, compressed.
fn bomb() -> Vec<u8> {
    padded(b"{", 200, b"")
}

/// A document with so many MiB of blanks in it, compressed.
fn padded(begin: &[u8], mebibytes: usize, end: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let blanks = vec![b' '; 1 << 20];
    encoder.write_all(begin).unwrap();
    for _ in 0..mebibytes {
        encoder.write_all(&blanks).unwrap();
    }
    encoder.write_all(end).unwrap();
    encoder.finish().unwrap()
}

/// Numbers that nobody can foresee and that are the same each time.
struct Random(u64);

impl Random {
    /// Returns one that is smaller than `below`.
    fn below(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below.max(1)
    }
}

fn store_with_records() -> (tempfile::TempDir, Vec<std::path::PathBuf>) {
    let root = tempfile::tempdir().unwrap();
    job::write(root.path(), JOB);
    job::put_records(root.path(), JOB);
    let files = files(root.path());
    assert!(files.len() >= 10, "{files:?}");
    (root, files)
}

#[test]
fn whatever_is_damaged_no_answer_is_a_fault() {
    let mut random = Random(7);
    let (root, files) = store_with_records();
    for round in 0..24 {
        let file = &files[random.below(files.len())];
        let before = std::fs::read(file).unwrap();
        let mut bytes = before.clone();
        match round % 4 {
            0 => bytes.truncate(random.below(bytes.len())),
            1 => {
                for _ in 0..8 {
                    let place = random.below(bytes.len());
                    bytes[place] =
                        bytes[place].wrapping_add(1 + u8::try_from(random.below(254)).unwrap());
                }
            }
            2 => bytes = b"[[[[[[[[{\"schema_version\":\"1.1\"}".to_vec(),
            _ => bytes = b"\x1f\x8b\x08\x00".to_vec(),
        }
        std::fs::write(file, bytes).unwrap();
        ask_for_all(&Page::of(root.path()));
        std::fs::write(file, before).unwrap();
    }
}

#[test]
fn whatever_a_document_says_no_answer_is_a_fault() {
    let mut random = Random(11);
    let (root, files) = store_with_records();
    for _ in 0..ROUNDS {
        let mut whole = Vec::new();
        for _ in 0..4 {
            let file = &files[random.below(files.len())];
            whole.push((file, std::fs::read(file).unwrap()));
            let mut document = document(file);
            for _ in 0..=random.below(4) {
                make_odd(&mut document, &mut random);
            }
            write_document(file, &document);
        }
        ask_for_all(&Page::of(root.path()));
        for (file, bytes) in whole.into_iter().rev() {
            std::fs::write(file, bytes).unwrap();
        }
    }
}

/// Stores with odd documents that are looked at.
const ROUNDS: usize = 24;

fn is_gzip(file: &std::path::Path) -> bool {
    file.extension().is_some_and(|it| it == "gz")
}

fn document(file: &std::path::Path) -> Value {
    let bytes = std::fs::read(file).unwrap();
    if is_gzip(file) {
        serde_json::from_reader(flate2::read::GzDecoder::new(bytes.as_slice())).unwrap()
    } else {
        serde_json::from_slice(&bytes).unwrap()
    }
}

fn write_document(file: &std::path::Path, document: &Value) {
    let text = serde_json::to_vec(document).unwrap();
    if !is_gzip(file) {
        return std::fs::write(file, text).unwrap();
    }
    let out = std::fs::File::create(file).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, &text).unwrap();
    encoder.finish().unwrap();
}

/// Puts something else in the place of one value of a document: mostly of the same kind, so that it is still understood.
fn make_odd(document: &mut Value, random: &mut Random) {
    let mut pointers = Vec::new();
    collect(document, String::new(), &mut pointers);
    let pointer = &pointers[random.below(pointers.len())];
    let value = document.pointer_mut(pointer).unwrap();
    let numbers = [
        json!(0),
        json!(1),
        json!(-1),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(i32::MAX),
        json!(1e300),
        json!(0.5),
    ];
    let texts = [
        "",
        "0",
        "-1:0",
        "99999:1",
        "<b>\u{0}\u{202e}",
        "a/../b",
        "%2e",
        "9999-12-31T23:59:59.999999Z",
    ];
    *value = match (&*value, random.below(8)) {
        (_, 0) => Value::Null,
        (Value::Number(_), _) => numbers[random.below(numbers.len())].clone(),
        (Value::String(_), 1) => json!("x".repeat(100_000)),
        (Value::String(_), _) => json!(texts[random.below(texts.len())]),
        (Value::Array(list), 1 | 2) => list.iter().cycle().take(list.len() * 50).cloned().collect(),
        (Value::Array(list), 3) => list.iter().rev().cloned().collect(),
        (Value::Array(_), _) => json!([]),
        (Value::Object(fields), _) => {
            let left_out = random.below(fields.len());
            let fields = fields.iter().enumerate();
            let others = fields.filter(|(place, _)| *place != left_out);
            others
                .map(|(_, (name, value))| (name.clone(), value.clone()))
                .collect()
        }
        (other, _) => json!([other]),
    };
}

/// The pointers of all values but the whole.
fn collect(value: &Value, pointer: String, pointers: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match value {
        Value::Array(list) => list
            .iter()
            .enumerate()
            .map(|(place, it)| (place.to_string(), it))
            .collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, it)| (name.replace('~', "~0").replace('/', "~1"), it))
            .collect(),
        _ => Vec::new(),
    };
    for (name, inner) in below {
        collect(inner, format!("{pointer}/{name}"), pointers);
    }
    if !pointer.is_empty() {
        pointers.push(pointer);
    }
}

fn files(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path
            .extension()
            .is_some_and(|it| it == "gz" || it == "json")
        {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn a_store_that_goes_away_is_said_and_shown_again_when_it_is_back() {
    let root = tempfile::tempdir().unwrap();
    let (there, gone) = (root.path().join("store"), root.path().join("gone"));
    job::write(&there, JOB);
    let page = Page::of(&there);
    assert_eq!(page.get("").status, 200);
    std::fs::rename(&there, &gone).unwrap();
    // What was asked a moment ago is taken to be so for a while.
    testkit::wait_until(DEADLINE, || page.get("").status != 200);
    let words = page.get("part/verdict").text();
    assert!(words.contains("class=\"trouble\""), "{words}");
    ask_for_all(&page);
    std::fs::rename(&gone, &there).unwrap();
    testkit::wait_until(DEADLINE, || page.get("").status == 200);
    ask_for_all(&page);
}

#[test]
fn a_run_of_one_snapshot_without_samples_is_a_whole_page() {
    let root = tempfile::tempdir().unwrap();
    job::write(
        root.path(),
        Job {
            snapshots: 1,
            ..JOB
        },
    );
    let page = Page::of(root.path());
    let time = page.whole("api/v1/timeline");
    assert_eq!(
        (&time["snapshot_count"], &time["to"]),
        (&json!(1), &time["from"])
    );
    assert_eq!(time["curve"]["at"], json!([]));
    assert_eq!(time["troubles"], json!([]));
    assert_eq!(page.whole("api/v1/ranks")["cells"], json!([[0, 2]]));
    for path in PATHS {
        let reply = page.get(path);
        let is_none = ["record=", "?at=2026", "pointer=/capture"];
        let is_there = is_none.iter().all(|it| !path.contains(it));
        assert_eq!(
            reply.status,
            if is_there { 200 } else { 404 },
            "{path}: {}",
            reply.text()
        );
    }
}

#[test]
fn folders_of_others_are_no_runs() {
    let root = tempfile::tempdir().unwrap();
    job::write(root.path(), JOB);
    std::fs::create_dir_all(root.path().join("a/attempt-0/diagnostics/node-x/snapshots")).unwrap();
    std::fs::create_dir_all(root.path().join("b/attempt-01/diagnostics")).unwrap();
    std::fs::write(root.path().join("README"), "words").unwrap();
    let page = Page::of(root.path());
    ask_for_all(&page);
    let empty = page.get("?task=a&attempt=0");
    assert_eq!(empty.status, 404);
    assert!(empty.text().contains("no snapshot yet"), "{}", empty.text());
    assert_eq!(page.get("?task=b&attempt=1").status, 404);
}
