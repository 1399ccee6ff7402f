//! `[findings]`: judging while the task runs.

use serde::{Deserialize, Serialize};

use super::Span;

/// `[findings]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct FindingSettings {
    pub(crate) live: bool,
    pub(crate) patience: Option<Span>,
    pub(crate) burst: u8,
}

impl FindingSettings {
    /// Returns how live judging is tuned; nothing where it is off.
    pub(crate) fn tuning(&self) -> Option<diagnose::Tuning> {
        let tuning = diagnose::Tuning {
            patience: self.patience.map(Span::duration),
            burst: self.burst,
        };
        self.live.then_some(tuning)
    }
}

impl Default for FindingSettings {
    fn default() -> Self {
        Self {
            live: true,
            patience: None,
            burst: 3,
        }
    }
}
