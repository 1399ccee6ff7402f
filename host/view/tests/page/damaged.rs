//! Stores in any state: what cannot be read is a part that says so, and the rest is shown.

use crate::client::Page;
use crate::job::{self, Job};

const JOB: Job = Job {
    nodes: 1,
    ranks: 2,
    snapshots: 6,
    stuck: Some(1),
};

/// Every address that reads the store.
const PATHS: [&str; 13] = [
    "",
    "runs",
    "part/verdict",
    "part/stacks?with=latest",
    "part/processes",
    "part/ipc",
    "process?process=1000:100",
    "value?pointer=/capture",
    "api/v1/runs",
    "api/v1/run",
    "api/v1/timeline",
    "api/v1/ranks",
    "api/v1/why",
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
    assert!(page.get("").text().contains("not read: "));
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

/// 200 MB of blanks within a document, compressed.
fn bomb() -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let blanks = vec![b' '; 1 << 20];
    encoder.write_all(b"{").unwrap();
    for _ in 0..200 {
        encoder.write_all(&blanks).unwrap();
    }
    encoder.finish().unwrap()
}

#[test]
fn whatever_is_damaged_no_answer_is_a_fault() {
    let mut seed = 7_u64;
    let mut random = move |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below.max(1)
    };
    let root = tempfile::tempdir().unwrap();
    job::write(root.path(), JOB);
    let files = files(root.path());
    assert!(files.len() >= 7, "{files:?}");
    for round in 0..24 {
        let file = &files[random(files.len())];
        let before = std::fs::read(file).unwrap();
        let mut bytes = before.clone();
        match round % 4 {
            0 => bytes.truncate(random(bytes.len())),
            1 => {
                for _ in 0..8 {
                    let place = random(bytes.len());
                    bytes[place] =
                        bytes[place].wrapping_add(1 + u8::try_from(random(254)).unwrap());
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
