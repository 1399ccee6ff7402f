//! `[run]`: how `run` stands by the task.

use serde::{Deserialize, Serialize};
use supervise::Recipients;

use super::Span;

/// `[run]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RunSettings {
    pub(crate) signals: SignalsChoice,
    pub(crate) stop_grace: Option<Span>,
    pub(crate) deadline_lead: Span,
    pub(crate) leftovers: LeftoversChoice,
}

/// `[run] signals`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SignalsChoice {
    /// The main process alone
    #[default]
    Child,
    /// The task's process group, which is then one of its own
    Group,
    /// Every process of the task
    Scope,
}

/// `[run] leftovers`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LeftoversChoice {
    /// Processes that outlive the task are told of.
    #[default]
    Report,
    /// They are ended as well: SIGTERM, and after `stop-grace` SIGKILL.
    End,
}

impl SignalsChoice {
    /// Returns whom signals are forwarded to.
    pub(crate) fn recipients(self) -> Recipients {
        match self {
            Self::Child => Recipients::Child,
            Self::Group => Recipients::Group,
            Self::Scope => Recipients::Scope,
        }
    }

    /// Returns the word that is written for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Child => "child",
            Self::Group => "group",
            Self::Scope => "scope",
        }
    }
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            signals: SignalsChoice::default(),
            stop_grace: None,
            deadline_lead: Span::seconds(60),
            leftovers: LeftoversChoice::default(),
        }
    }
}
