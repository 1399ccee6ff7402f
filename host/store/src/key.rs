//! Where things lie in a store: `<task path>/attempt-<n>/diagnostics/node-<node>/snapshots/<snapshot id>.json.gz`.
//! Texts and keys correspond one to one; a foreign name is an error to skip, never a guess.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use model::{SnapshotId, Task, TaskPath, natural_order};

/// One node's folder in one attempt at a task. Displays and parses as
/// `<task path>/attempt-<n>/diagnostics/node-<node>`. In the order of task, attempt and node, `node-2` before `node-10`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The task.
    pub task: TaskPath,
    /// Which attempt at it, from 0.
    pub attempt: u32,
    /// The node identity: letters, digits and `_ . -`, with neither `.` nor `-` at its ends.
    pub node: String,
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_attempt = (&self.task, self.attempt).cmp(&(&other.task, other.attempt));
        by_attempt.then_with(|| natural_order(&self.node, &other.node))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Where one snapshot lies. Displays and parses as `<place>/snapshots/<snapshot id>.json.gz`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The node's folder.
    pub place: Place,
    /// The snapshot.
    pub id: SnapshotId,
}

/// A text that is no place or no key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of the names in a store")]
pub struct ParseKeyError(String);

impl ParseKeyError {
    pub(crate) fn of(text: &str) -> Self {
        Self(text.to_owned())
    }
}

const FILE_SUFFIX: &str = ".json.gz";

impl Place {
    /// Returns the place of `task`.
    pub fn of(task: &Task) -> Self {
        Self {
            task: task.pathspec.clone(),
            attempt: task.attempt,
            node: task.node.clone(),
        }
    }

    /// Returns the key of the index.
    pub fn index_key(&self) -> String {
        format!("{self}/index.json")
    }

    pub(crate) fn index_folder(&self) -> String {
        format!("{self}/index/")
    }

    pub(crate) fn snapshots_folder(&self) -> String {
        format!("{self}/snapshots/")
    }
}

/// Returns the folder of the nodes of an attempt.
pub(crate) fn diagnostics_folder(task: &TaskPath, attempt: u32) -> String {
    format!("{task}/attempt-{attempt}/diagnostics/")
}

/// Reads the name of an attempt's folder.
pub(crate) fn parse_attempt(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("attempt-")?;
    let attempt: u32 = digits.parse().ok()?;
    (attempt.to_string() == digits).then_some(attempt)
}

/// Reads the name of a node's folder.
pub(crate) fn parse_node(name: &str) -> Option<&str> {
    let node = name.strip_prefix("node-")?;
    is_node(node).then_some(node)
}

fn is_node(node: &str) -> bool {
    !node.is_empty()
        && !node.starts_with(['.', '-'])
        && !node.ends_with(['.', '-'])
        && node
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// Returns the name of a snapshot's object.
pub(crate) fn file_name(id: SnapshotId) -> String {
    format!("{id}{FILE_SUFFIX}")
}

/// Reads the name of a snapshot's object. A name that says the same in other digits is refused, because the object
/// could not be found again by its id.
pub(crate) fn parse_file_name(name: &str) -> Option<SnapshotId> {
    let text = name.strip_suffix(FILE_SUFFIX)?;
    let id: SnapshotId = text.parse().ok()?;
    (id.to_string() == text).then_some(id)
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            task,
            attempt,
            node,
        } = self;
        write!(
            formatter,
            "{task}/attempt-{attempt}/diagnostics/node-{node}"
        )
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, id } = self;
        write!(formatter, "{place}/snapshots/{id}{FILE_SUFFIX}")
    }
}

impl FromStr for Place {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_place(text).ok_or_else(|| ParseKeyError::of(text))
    }
}

impl FromStr for Key {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_key(text).ok_or_else(|| ParseKeyError::of(text))
    }
}

fn parse_place(text: &str) -> Option<Place> {
    let (rest, node) = text.rsplit_once('/')?;
    let (rest, diagnostics) = rest.rsplit_once('/')?;
    let (task, attempt) = rest.rsplit_once('/')?;
    if diagnostics != "diagnostics" {
        return None;
    }
    Some(Place {
        task: task.parse().ok()?,
        attempt: parse_attempt(attempt)?,
        node: parse_node(node)?.to_owned(),
    })
}

fn parse_key(text: &str) -> Option<Key> {
    let (rest, file) = text.rsplit_once('/')?;
    let (place, snapshots) = rest.rsplit_once('/')?;
    if snapshots != "snapshots" {
        return None;
    }
    Some(Key {
        place: parse_place(place)?,
        id: parse_file_name(file)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Timestamp;
    use proptest::prelude::*;

    fn places() -> impl Strategy<Value = Place> {
        let segment = "[A-Za-z0-9_+=@:,][A-Za-z0-9_.+=@:,-]{0,12}";
        let task = proptest::collection::vec(segment, 1..6)
            .prop_filter_map("reserved", |segments| segments.join("/").parse().ok());
        let node = "[A-Za-z0-9_]([A-Za-z0-9_.-]{0,20}[A-Za-z0-9_])?";
        (task, any::<u32>(), node).prop_map(|(task, attempt, node)| Place {
            task,
            attempt,
            node,
        })
    }

    proptest! {
        #[test]
        fn every_key_is_found_again_by_its_text(place in places(), microseconds in 0..4_000_000_000_000_000_i64, sequence: u64) {
            let stamp = Timestamp::from_microseconds(microseconds).unwrap();
            let key = Key { place: place.clone(), id: SnapshotId { stamp, sequence } };
            prop_assert_eq!(key.to_string().parse(), Ok(key));
            prop_assert_eq!(place.to_string().parse(), Ok(place));
        }

        #[test]
        fn a_text_that_parses_is_the_only_one_for_its_key(text in r"(a/attempt-[0-9]{1,3}/diagnostics/node-[a-z.]{1,3}/snapshots/2026[0-9]{4}T[0-9]{6}\.[0-9]{1,7}Z-[0-9]{5,8}\.json\.gz|\PC*)") {
            if let Ok(key) = text.parse::<Key>() {
                prop_assert_eq!(key.to_string(), text.clone());
            }
            if let Ok(place) = text.parse::<Place>() {
                prop_assert_eq!(place.to_string(), text);
            }
        }
    }

    #[test]
    fn names_of_metaflow_pyspy_are_keys() {
        let text = "Flow/17/start/1/attempt-0/diagnostics/node-vm/snapshots/20261129T144054.169782Z-000000.json.gz";
        let key: Key = text.parse().unwrap();
        assert_eq!(
            (key.place.task.as_str(), key.place.node.as_str()),
            ("Flow/17/start/1", "vm")
        );
        assert_eq!(
            key.place.index_key(),
            "Flow/17/start/1/attempt-0/diagnostics/node-vm/index.json"
        );
    }

    #[test]
    fn foreign_names_are_refused() {
        let good =
            "a/attempt-0/diagnostics/node-vm/snapshots/20261129T144054.169782Z-000000.json.gz";
        assert!(good.parse::<Key>().is_ok());
        for (part, other) in [
            ("attempt-0", "attempt-00"),
            ("attempt-0", "attempt-+1"),
            ("diagnostics", "other"),
            ("node-vm", "node-"),
            ("node-vm", "node-.."),
            ("snapshots", "samples"),
            (".json.gz", ".json"),
            (".json.gz", ".json.gz.bad"),
            ("-000000", "-0000000"),
            (".169782Z", ".16978Z"),
            ("a/", "/"),
        ] {
            let bad = good.replacen(part, other, 1);
            assert!(bad.parse::<Key>().is_err(), "{bad} was accepted");
        }
    }
}
