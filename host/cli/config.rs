//! Settings: `collector.toml`, its defaults, and where each value came from.
//!
//! Unknown keys, wrong types and impossible values are refused with file, line and caret before a task starts.

pub(crate) mod file;
mod findings;
mod monitor;
mod plugins;
mod run;
mod values;

use serde::{Deserialize, Serialize};

#[cfg(test)]
pub(crate) use file::parse;
pub(crate) use file::{Loaded, load};
pub(crate) use findings::FindingSettings;
pub(crate) use monitor::MonitorSettings;
pub(crate) use plugins::{
    BUILTIN, EnricherEntry, Mode, PluginSettings, SinkPermissions, SinkSettings,
};
pub(crate) use run::{LeftoversChoice, RunSettings, SignalsChoice};
pub(crate) use values::{Age, Allowance, Pattern, Share, Size, Span};

/// All settings, as in `collector.toml`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings {
    pub(crate) task: TaskSettings,
    pub(crate) capture: CaptureSettings,
    pub(crate) monitor: MonitorSettings,
    pub(crate) findings: FindingSettings,
    pub(crate) store: StoreSettings,
    pub(crate) run: RunSettings,
    pub(crate) plugins: PluginSettings,
    pub(crate) enricher: Vec<EnricherEntry>,
    pub(crate) sink: Vec<SinkSettings>,
}

/// `[task]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TaskSettings {
    pub(crate) name: Option<String>,
    pub(crate) command: Option<String>,
}

/// `[capture]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct CaptureSettings {
    pub(crate) interval: Span,
    pub(crate) scope: ScopeChoice,
    pub(crate) process_pattern: Option<Pattern>,
    pub(crate) focus_files: Vec<String>,
    pub(crate) environment: Vec<String>,
    pub(crate) redact: Vec<Pattern>,
    pub(crate) budget: Share,
    pub(crate) shared_memory: Allowance,
    pub(crate) stacks: StackChoices,
}

/// `[capture] scope`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ScopeChoice {
    /// `cgroup` if the task's cgroup is not the root one and holds only the task, else `tree`
    #[default]
    Auto,
    /// The main process and its descendants, re-parented ones included
    Tree,
    /// Every process in the main process's cgroup and the cgroups below it
    Cgroup,
}

/// `[capture.stacks]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct StackChoices {
    pub(crate) source: StackChoice,
    pub(crate) timeout: Span,
    pub(crate) nonblocking: bool,
    pub(crate) max_parallel: std::num::NonZeroU16,
    pub(crate) locals: Vec<String>,
}

/// `[capture.stacks] source`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StackChoice {
    /// The py-spy library, in helper processes of ours.
    #[default]
    Embedded,
    /// An installed py-spy program.
    Executable,
    /// No Python stacks.
    Off,
}

/// `[store]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct StoreSettings {
    pub(crate) url: Option<String>,
    pub(crate) retention: Option<RetentionChoice>,
    pub(crate) spool: SpoolChoices,
}

/// `[store] retention`
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RetentionChoice {
    pub(crate) snapshots: Option<std::num::NonZeroU64>,
    pub(crate) age: Option<Age>,
    pub(crate) size: Option<Size>,
}

impl RetentionChoice {
    /// Returns what is kept.
    pub(crate) fn limits(self) -> store::Retention {
        store::Retention {
            age: self.age.map(Age::duration),
            size_bytes: self.size.map(Size::bytes),
            snapshots: self.snapshots.map(std::num::NonZeroU64::get),
        }
    }
}

/// `[store.spool]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct SpoolChoices {
    pub(crate) directory: Option<std::path::PathBuf>,
    pub(crate) max_size: Size,
}

impl Default for CaptureSettings {
    fn default() -> Self {
        Self {
            interval: Span::seconds(120),
            scope: ScopeChoice::default(),
            process_pattern: None,
            focus_files: Vec::new(),
            environment: Vec::new(),
            redact: Vec::new(),
            budget: Share::ONE_PERCENT,
            shared_memory: Allowance::Off,
            stacks: StackChoices::default(),
        }
    }
}

impl Default for StackChoices {
    fn default() -> Self {
        Self {
            source: StackChoice::default(),
            timeout: Span::seconds(25),
            nonblocking: true,
            max_parallel: const { std::num::NonZeroU16::new(8).expect("8 is not 0") },
            locals: ["step", "global_step", "epoch", "batch_idx"]
                .map(str::to_owned)
                .to_vec(),
        }
    }
}

impl Default for SpoolChoices {
    fn default() -> Self {
        Self {
            directory: None,
            max_size: Size::mebibytes(512),
        }
    }
}

#[cfg(test)]
mod tests;
