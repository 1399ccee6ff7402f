//! How one plugin's call on a snapshot went: an entry under `plugins`.

use serde::{Deserialize, Serialize};

/// How the call ended. Serialises in kebab case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutcomeKind {
    /// It answered.
    Ok,
    /// It was still being compiled when the snapshot had to be written.
    NotReady,
    /// It could not be loaded: no such file, not a component, wrong world.
    LoadFailed,
    /// It refused its settings; it is disabled.
    ConfigRefused,
    /// It answered with an error of its own.
    Refused,
    /// It trapped: a panic, a bad pointer, a stack overflow.
    Trapped,
    /// It did not answer before its deadline.
    OutOfTime,
    /// It went over its memory or output limit.
    OverLimit,
    /// It waits after failures and was not called.
    BackedOff,
}

/// One plugin's part in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginOutcome {
    /// Annotations that were taken.
    pub annotations: u32,
    /// Wall time of the call, microseconds; absent where it was not called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
    /// Findings that were taken.
    pub findings: u32,
    /// The instance: the name of its `[[enricher]]` entry.
    pub instance: String,
    /// Linear memory after the call, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// What went wrong, in words; absent when nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How it ended.
    pub outcome: OutcomeKind,
    /// The version that the plugin says it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}
