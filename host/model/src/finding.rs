//! One claim about what is wrong, with its evidence.

use serde::{Deserialize, Serialize};

use crate::Target;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// May become a problem, or explains one.
    Warning,
    /// Is the problem.
    Error,
}

/// One claim about what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The values it rests on.
    pub evidence: Vec<Evidence>,
    /// A lower-case dashed name, such as `missing-ranks`.
    pub kind: String,
    /// One sentence for a person.
    pub message: String,
    /// The plugin instance that said it; absent for our own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub target: Target,
}

/// A value of the snapshot document that a finding rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// An RFC 6901 pointer into the snapshot document.
    pub pointer: String,
    /// The value there, as JSON text.
    pub value: String,
}
