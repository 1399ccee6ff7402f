//! What a plugin says about a part of a snapshot.

use serde::{Deserialize, Serialize};

use crate::ProcessId;

/// One statement of a plugin. Well-known keys (`rank`, `local-rank`, `world-size`, `node`, `missing-ranks`,
/// `duplicate-ranks`, `step`, `group`, `role`, `tag`, `label`, `score`, `hidden`) stand as they are; every other
/// key is stored as `<plugin instance>/<key>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Annotation {
    /// The key.
    pub key: String,
    /// The plugin instance that said it.
    pub plugin: String,
    /// What it is about.
    pub target: Target,
    /// The value.
    pub value: Value,
}

/// What an annotation or finding is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The whole snapshot.
    Snapshot,
    /// One process.
    Process(ProcessId),
    /// One thread.
    Thread {
        /// The process it belongs to.
        process: ProcessId,
        /// Its kernel thread id.
        tid: i32,
    },
    /// A distinct stack: its index in the snapshot's [`crate::StackTable`], which is the same whenever it is built.
    Stack(u32),
    /// A distinct frame: its index in the snapshot's [`crate::StackTable`].
    Frame(u32),
    /// A group that a plugin made by annotating processes with the key `group`.
    Group(String),
}

/// A value of an annotation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Text.
    Text(String),
    /// A finite number.
    Number(f64),
    /// True or false.
    Flag(bool),
}

impl std::fmt::Display for Value {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => formatter.write_str(text),
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Flag(flag) => write!(formatter, "{flag}"),
        }
    }
}
