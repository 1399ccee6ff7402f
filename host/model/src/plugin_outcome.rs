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
    /// The instance: the name of its `[[enricher]]` or `[[sink]]` entry.
    pub instance: String,
    /// Linear memory after the call, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// What went wrong, in words; absent when nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How it ended.
    pub outcome: OutcomeKind,
    /// Of a sink: what became of the snapshots before this one. The outcome is that of its last call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink: Option<SinkTally>,
    /// The version that the plugin says it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// What became of the snapshots that a sink was given since the collector's start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkTally {
    /// Messages that it says went out.
    pub delivered: u64,
    /// Snapshots that were dropped: refused, after two crashes, or because its queue was full.
    pub dropped: u64,
    /// Why the last one was dropped, in words; absent where none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_dropped: Option<String>,
    /// Snapshots that wait for it or are with it now.
    pub queued: u32,
    /// Snapshots that it has dealt with, whether there was something to send or not.
    pub snapshots: u64,
}
