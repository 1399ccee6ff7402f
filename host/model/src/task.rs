//! The watched task: its path, attempt and node.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a task as one or more segments joined by `/`, such as `train/20261129T144054Z-k3f9` or
/// Metaflow's `flow/run/step/task`. Every segment is non-empty, consists of letters, digits and `_ . - + = @ : ,`,
/// does not begin with `.` (reserved) and is none of the names of the store's own folders below a task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskPath(String);

/// Why a text is no task path.
#[derive(Debug, PartialEq, Eq)]
pub struct ParseTaskPathError {
    path: String,
    reason: &'static str,
}

impl TaskPath {
    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the segments, outermost first.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// Returns `text` with every run of characters that a segment may not hold as one `-`, and `unknown` for nothing.
    pub fn clean_segment(text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        for character in text.chars() {
            if is_allowed(character) {
                clean.push(character);
            } else if !clean.ends_with('-') {
                clean.push('-');
            }
        }
        let clean = clean
            .trim_start_matches(['.', '-'])
            .trim_end_matches(['.', '-']);
        if clean.is_empty() {
            "unknown".to_owned()
        } else {
            clean.to_owned()
        }
    }
}

fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_.-+=@:,".contains(character)
}

impl fmt::Display for TaskPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for ParseTaskPathError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "`{}` is no task path: {}",
            self.path, self.reason
        )
    }
}

impl std::error::Error for ParseTaskPathError {}

impl FromStr for TaskPath {
    type Err = ParseTaskPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |reason| {
            Err(ParseTaskPathError {
                path: text.to_owned(),
                reason,
            })
        };
        for segment in text.split('/') {
            if segment.is_empty() {
                return refuse("a segment is empty; write name or flow/run/step/task");
            }
            if segment.starts_with('.') {
                return refuse("segments that begin with `.` are reserved");
            }
            if segment == "diagnostics" || segment == "plugins" || segment.starts_with("attempt-") {
                return refuse(
                    "`attempt-…`, `diagnostics` and `plugins` are the store's own folders",
                );
            }
            if !segment.chars().all(is_allowed) {
                return refuse("letters, digits and _ . - + = @ : , are allowed in a segment");
            }
        }
        Ok(Self(text.to_owned()))
    }
}

impl Serialize for TaskPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for TaskPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The `task` object of a snapshot and of an index. `flow`, `run`, `step` and `task` are there exactly when the
/// path has four segments, as in schema 1.0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Which attempt at the task this is, from 0.
    pub attempt: u32,
    /// First of four path segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// The machine's host name.
    pub host: String,
    /// The node identity, cleaned for use in a key; equals `host` where nothing better names the node.
    pub node: String,
    /// The whole path.
    pub pathspec: TaskPath,
    /// Second of four path segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Third of four path segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Fourth of four path segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

impl Task {
    /// Returns the task at `pathspec`; `node` is cleaned as a path segment.
    pub fn new(pathspec: TaskPath, attempt: u32, node: &str, host: &str) -> Self {
        let parts: Vec<String> = pathspec.segments().map(str::to_owned).collect();
        let part = |index: usize| {
            if parts.len() == 4 {
                parts.get(index).cloned()
            } else {
                None
            }
        };
        Self {
            attempt,
            flow: part(0),
            host: host.to_owned(),
            node: clean_node(node),
            run: part(1),
            step: part(2),
            task: part(3),
            pathspec,
        }
    }
}

/// The predecessor's rule: only `[A-Za-z0-9_.-]`, other runs as one `-`, no `-` or `.` at either end.
fn clean_node(node: &str) -> String {
    let mut clean = String::with_capacity(node.len());
    for character in node.chars() {
        if character.is_ascii_alphanumeric() || "_.-".contains(character) {
            clean.push(character);
        } else if !clean.ends_with('-') {
            clean.push('-');
        }
    }
    let clean = clean.trim_matches(['-', '.']);
    if clean.is_empty() {
        "unknown".to_owned()
    } else {
        clean.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_segments_fill_the_schema_1_0_names() {
        let task = Task::new("Flow/12/train/3".parse().unwrap(), 1, "pod/a b", "vm");
        assert_eq!(
            (task.flow.as_deref(), task.task.as_deref()),
            (Some("Flow"), Some("3"))
        );
        assert_eq!(task.node, "pod-a-b");
    }

    #[test]
    fn other_lengths_leave_them_out() {
        assert_eq!(
            Task::new("train/x".parse().unwrap(), 0, "..", "vm").flow,
            None
        );
    }

    #[test]
    fn reserved_and_odd_segments_are_refused_with_the_reason() {
        for bad in [
            "",
            "a//b",
            ".spool/x",
            "a/../b",
            "a/attempt-0",
            "diagnostics",
            "a b",
        ] {
            assert!(bad.parse::<TaskPath>().is_err(), "{bad} was accepted");
        }
        assert_eq!(
            "a b".parse::<TaskPath>().unwrap_err().to_string(),
            "`a b` is no task path: letters, digits and _ . - + = @ : , are allowed in a segment"
        );
    }

    #[test]
    fn any_text_can_be_cleaned_into_a_segment() {
        for text in ["", "..", "a b/c", "python3", "-x-", "ünï"] {
            let clean = TaskPath::clean_segment(text);
            assert!(clean.parse::<TaskPath>().is_ok(), "{text} became {clean}");
        }
    }
}
