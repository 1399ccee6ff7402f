//! The unmodified `PySpy` reader of `metaflow_pyspy` reads what our writer wrote.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use model::Snapshot;
use serde_json::Value;
use taskscope_store::{Location, Place, SpoolSettings, Store, Writer};

mod sample;

const PACKAGES: [&str; 2] = ["metaflow==2.19.39", "metaflow_pyspy==0.1.2"];

fn run(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}: {words}", output.status))
}

/// Writes two snapshots of each of two nodes.
async fn fill(directory: &Path) -> Vec<Snapshot> {
    let store = Store::open(&Location::parse(".", directory).unwrap()).unwrap();
    let mut written = Vec::new();
    for (node, sequences) in [("node-a", [0, 2]), ("node-b", [1, 3])] {
        let mut task = sample::task();
        task.node = node.to_owned();
        let focus_files = vec!["train.py".to_owned()];
        let spool = SpoolSettings {
            directory: directory.join(".spool"),
            max_size_bytes: 1 << 30,
        };
        let place = Place::of(&task);
        let mut writer =
            Writer::open(Some(store.clone()), place, task.clone(), focus_files, spool).await;
        for sequence in sequences {
            let mut snapshot = sample::snapshot(sequence);
            snapshot.task = task.clone();
            writer.write(&snapshot, sample::time(sequence)).await;
            written.push(snapshot);
        }
        let summary = writer.close(Duration::from_secs(20)).await;
        assert_eq!(summary.stored, 2, "{summary:?}");
    }
    written.sort_by_key(|snapshot| snapshot.capture.sequence);
    written
}

/// Returns the names of an object.
fn names(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// Returns what the unmodified reader tells of the store at `root`.
fn seen_by_pyspy(python: &Path, root: &Path, pathspec: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pyspy_reader.py");
    // Metaflow keeps files in the home directory and must not find the developer's settings there.
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(python);
    command.env("HOME", home.path());
    command.arg(script).arg(root).arg(pathspec);
    command.current_dir(home.path());
    serde_json::from_slice(&run(&mut command).unwrap()).unwrap()
}

#[test]
fn pyspy_reads_the_newest_of_a_store_whose_older_entries_are_sealed() {
    let Some(python) = testkit::venv(testkit::newest_python(), &PACKAGES) else {
        return; // it said why, aloud
    };
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/stored");
    let root = fixtures.canonicalize().unwrap().join("taskscope-1.1");
    let seen = seen_by_pyspy(&python, &root, "Flow/17/train/3");
    assert_eq!(seen["nodes"], serde_json::json!(["node-a"]));
    let entries = seen["snapshots"].as_array().unwrap();
    let order: Vec<_> = entries.iter().map(|entry| &entry["sequence"]).collect();
    assert_eq!(order, [3, 4, 5]);
    assert_eq!(seen["index"]["sealed"]["snapshots"], 3);
    assert_eq!(seen["latest"]["capture"]["sequence"], 5);
    assert_eq!(seen["missing"], "FileNotFoundError");
    assert_names_of_schema_1_0(&seen);
}

#[tokio::test]
async fn pyspy_reads_our_store() {
    let Some(python) = testkit::venv(testkit::newest_python(), &PACKAGES) else {
        return; // it said why, aloud
    };
    let root = tempfile::tempdir().unwrap();
    let written = fill(root.path()).await;
    let pathspec = sample::task().pathspec.to_string();
    let seen = seen_by_pyspy(&python, root.path(), &pathspec);

    let diagnostics = root.path().join(pathspec).join("attempt-0/diagnostics");
    assert_eq!(seen["root"], diagnostics.to_str().unwrap());
    assert_eq!(seen["nodes"], serde_json::json!(["node-a", "node-b"]));
    assert_eq!(seen["of_one_node"].as_array().unwrap().len(), 2);
    let entries = seen["snapshots"].as_array().unwrap();
    let order: Vec<_> = entries.iter().map(|entry| &entry["sequence"]).collect();
    assert_eq!(order, [0, 1, 2, 3]);
    // What the reader loads is the whole snapshot, number for number.
    let expected: Vec<Value> = written
        .iter()
        .map(|snapshot| serde_json::to_value(snapshot).unwrap())
        .collect();
    assert_eq!(seen["loaded"].as_array().unwrap(), &expected);
    assert_eq!(seen["by_key"], expected[0]);
    assert_eq!(seen["latest"], expected[3]);
    assert_names_of_schema_1_0(&seen);
}

/// Every name that `metaflow_pyspy` 0.1.2 writes into an index stands where it wrote it.
fn assert_names_of_schema_1_0(seen: &Value) {
    let fixture: Value =
        serde_json::from_str(include_str!("fixtures/schema-1.0-index.json")).unwrap();
    let entry = &seen["snapshots"][0];
    for name in names(&fixture["snapshots"][0]) {
        assert!(entry.get(name).is_some(), "the entry has no {name}");
    }
    for name in names(&fixture) {
        assert!(seen["index"].get(name).is_some(), "the index has no {name}");
    }
    for name in names(&fixture["task"]) {
        assert!(
            seen["index"]["task"].get(name).is_some(),
            "the task has no {name}"
        );
    }
}
