//! What the settings say about a plugin, and what a plugin says about itself.

use std::path::PathBuf;
use std::time::Duration;

/// One plugin to load: an `[[enricher]]` entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where its component is.
    pub component: ComponentSource,
    /// Its settings as JSON text, `{}` for none.
    pub config_json: String,
    /// How long one call may take.
    pub deadline: Duration,
    /// The names of the environment variables of watched processes that it may see; a trailing `*` makes a prefix.
    pub environment: Vec<String>,
    /// The name of the entry.
    pub instance: String,
    /// How much linear memory it may have, bytes.
    pub memory_bytes: u64,
    /// The SHA-256 that its component must have, hexadecimal.
    pub sha256: Option<String>,
}

/// Where a component is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComponentSource {
    /// In this binary, under one of the names of [`crate::builtins`].
    Builtin(String),
    /// In a file.
    File(PathBuf),
}

/// What plugins are told about where they run.
#[derive(Clone, Debug)]
pub struct About {
    /// The version of taskscope.
    pub host_version: String,
    /// The node.
    pub node: String,
    /// The path of the task.
    pub task: String,
}

/// What a plugin says about itself.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Description {
    /// JSON Schema of its settings, if it has any.
    pub config_schema: Option<String>,
    /// Its name.
    pub name: String,
    /// The parts of a snapshot that it reads, as named in `wit/`.
    pub needs: Vec<&'static str>,
    /// Permissions it cannot work without, as written in the settings.
    pub requires: Vec<String>,
    /// What it does, in one line.
    pub summary: String,
    /// Its version.
    pub version: String,
}
