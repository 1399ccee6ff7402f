//! Files that change while a plugin runs.

use std::path::{Path, PathBuf};
use std::time::Instant;

use model::{OutcomeKind, Snapshot};
use taskscope_plugin::{ComponentSource, Entry, Plugins};

use crate::{PATIENCE, guest, load, machine, outcome, said};

/// The test guest as one of its variants, see `variant` there.
fn component(variant: &str) -> Vec<u8> {
    variant_of(env!("PLUGIN_TESTING"), variant)
}

/// The component in `path` as one of its variants.
pub(crate) fn variant_of(path: &str, variant: &str) -> Vec<u8> {
    let mut bytes = std::fs::read(path).unwrap();
    let (plain, other) = (b"0.0.1-plain", format!("0.0.1{variant}").into_bytes());
    assert_eq!(plain.len(), other.len());
    let places: Vec<usize> = (0..bytes.len() - plain.len())
        .filter(|&at| bytes[at..].starts_with(plain))
        .collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + plain.len()].copy_from_slice(&other);
    }
    bytes
}

/// Replaces the file whole, as a careful deployment does.
pub(crate) fn put(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    std::fs::write(&new, bytes).unwrap();
    std::fs::rename(new, path).unwrap();
}

struct Watched {
    plugins: Plugins,
    snapshots: i32,
}

impl Watched {
    fn load(entry: Entry) -> Self {
        Self {
            plugins: load(vec![entry]),
            snapshots: 0,
        }
    }

    async fn next(&mut self) -> Snapshot {
        self.snapshots += 1;
        self.plugins.enrich(machine::snapshot(1), PATIENCE).await
    }

    /// The first snapshot that `is_right`; in all until then the plugin has answered.
    async fn until(&mut self, is_right: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let begun = Instant::now();
        loop {
            let snapshot = self.next().await;
            assert_eq!(outcome(&snapshot, "odd").outcome, OutcomeKind::Ok);
            if is_right(&snapshot) {
                return snapshot;
            }
            assert!(begun.elapsed() < PATIENCE, "{:?}", snapshot.plugins);
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

fn version(snapshot: &Snapshot) -> &str {
    outcome(snapshot, "odd").version.as_deref().unwrap()
}

fn message(snapshot: &Snapshot) -> Option<&str> {
    outcome(snapshot, "odd").message.as_deref()
}

fn entry(path: &Path) -> Entry {
    Entry {
        component: ComponentSource::File(path.to_owned()),
        ..guest("count")
    }
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("odd.wasm");
    (directory, path)
}

#[tokio::test]
async fn new_code_takes_over_between_two_snapshots_with_the_state_of_the_old() {
    let (_directory, path) = place();
    put(&path, &component("-plain"));
    let mut watched = Watched::load(entry(&path));
    let snapshot = watched.next().await;
    assert_eq!(
        (version(&snapshot), message(&snapshot)),
        ("0.0.1-plain", None)
    );
    put(&path, &component("-other"));
    let snapshot = watched.until(|it| version(it) == "0.0.1-other").await;
    assert_eq!(message(&snapshot), None);
    let calls = watched.snapshots.to_string();
    assert_eq!(said(&snapshot, "odd/calls"), [(0, calls)]);
}

#[tokio::test]
async fn a_broken_file_leaves_the_old_code_at_work_and_a_sound_one_takes_over() {
    let (_directory, path) = place();
    put(&path, &component("-plain"));
    let mut watched = Watched::load(entry(&path));
    watched.next().await;
    let half = &component("-other")[..20_000];
    let goes_on = "; the code from before goes on";
    let cases = [
        (
            half,
            "what its file became cannot be used (not a WebAssembly component: ",
        ),
        (
            &component("-traps"),
            "what its file became cannot be used (panicked at testing/src/lib.rs:",
        ),
    ];
    for (bytes, reason) in cases {
        put(&path, bytes);
        let snapshot = watched
            .until(|it| message(it).is_some_and(|message| message.starts_with(reason)))
            .await;
        assert_eq!(version(&snapshot), "0.0.1-plain");
        let message = message(&snapshot).unwrap();
        assert!(message.ends_with(goes_on), "{message}");
    }
    put(&path, &component("-other"));
    let snapshot = watched.until(|it| version(it) == "0.0.1-other").await;
    assert_eq!(message(&snapshot), None);
}

#[tokio::test]
async fn a_pin_holds_for_what_a_file_becomes() {
    let (_directory, path) = place();
    put(&path, &component("-plain"));
    let sum = std::process::Command::new("sha256sum").arg(&path).output();
    let sum = String::from_utf8(sum.unwrap().stdout).unwrap();
    let pinned = sum.split_whitespace().next().unwrap().to_owned();
    let mut watched = Watched::load(Entry {
        sha256: Some(pinned.clone()),
        ..entry(&path)
    });
    assert_eq!(message(&watched.next().await), None);
    put(&path, &component("-other"));
    let expected = format!(", and the settings pin {pinned}); the code from before goes on");
    let snapshot = watched
        .until(|it| message(it).is_some_and(|message| message.ends_with(&expected)))
        .await;
    assert_eq!(version(&snapshot), "0.0.1-plain");
}

#[tokio::test]
async fn a_file_that_was_missing_is_loaded_when_it_is_there() {
    let (_directory, path) = place();
    let mut watched = Watched::load(entry(&path));
    let snapshot = watched.next().await;
    assert_eq!(outcome(&snapshot, "odd").outcome, OutcomeKind::LoadFailed);
    put(&path, &component("-plain"));
    let begun = Instant::now();
    while outcome(&watched.next().await, "odd").outcome != OutcomeKind::Ok {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
