//! `[monitor]`: samples between the snapshots, and what is said of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Span;
use super::values::{Text, text_value};

const BEAT_FORM: &str = "\"off\" or a duration above zero, such as \"30s\" or \"5m\"";

/// `[monitor]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct MonitorSettings {
    pub(crate) interval: Span,
    pub(crate) detailed_memory: bool,
    pub(crate) log_interval: Beat,
    pub(crate) max_samples: u16,
    pub(crate) run_directory: Option<std::path::PathBuf>,
}

/// How often something is done, or that it is not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Beat {
    Off,
    Every(Span),
}

impl Beat {
    /// Returns the time between two, if it is done at all.
    pub(crate) fn duration(self) -> Option<std::time::Duration> {
        match self {
            Self::Off => None,
            Self::Every(span) => Some(span.duration()),
        }
    }
}

impl Default for MonitorSettings {
    fn default() -> Self {
        Self {
            interval: Span::seconds(1),
            detailed_memory: false,
            log_interval: Beat::Every(Span::seconds(30)),
            max_samples: 0,
            run_directory: None,
        }
    }
}

impl FromStr for Beat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let span = text.parse();
        span.map(Self::Every)
            .map_err(|_| format!("`{text}` is not {BEAT_FORM}"))
    }
}

impl fmt::Display for Beat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => formatter.write_str("off"),
            Self::Every(span) => span.fmt(formatter),
        }
    }
}

text_value!(Beat, BEAT_FORM);
