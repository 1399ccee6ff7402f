//! The command line. Doc comments of these types are the help texts.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    attach, config, ctl, debug, diff, doctor, list, plugin, plugin_compile, report, run, show,
    snapshot, spool, stage, stand_in, why,
};
use crate::config::{ScopeChoice, Span};
use crate::root::Wanted;
use crate::ui::ColorChoice;

/// Wrap a task, watch every process of it, and read back what was seen
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// When to colour what is printed for people
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,

    /// The settings file [default: ./collector.toml where there is one]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The present, for tests
    #[arg(long, global = true, hide = true, value_parser = parse_timestamp)]
    pub(crate) now: Option<model::Timestamp>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::RunArgs),
    Attach(attach::AttachArgs),
    Snapshot(snapshot::SnapshotArgs),
    Ctl(ctl::CtlArgs),
    Stage(stage::StageArgs),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Report(report::ReportArgs),
    Spool(spool::SpoolArgs),
    Why(why::WhyArgs),
    Diff(diff::DiffArgs),
    Config(config::ConfigArgs),
    Plugin(plugin::PluginArgs),
    Doctor(doctor::DoctorArgs),
    #[command(hide = true)]
    Debug(debug::DebugArgs),
    /// Read the memory of processes for a collector
    #[command(hide = true)]
    MemoryHelper,
    /// Read Python stacks for a collector
    #[command(hide = true)]
    StackHelper,
    /// Ask GPUs for a collector
    #[command(hide = true)]
    GpuHelper,
    /// Go on in the place of a `run` that crashed
    #[command(hide = true)]
    StandIn(stand_in::StandInArgs),
    /// Compile a plugin for a collector
    #[command(hide = true)]
    PluginCompile(plugin_compile::PluginCompileArgs),
}

/// How to watch; shared by `run` and `attach`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct WatchArgs {
    /// Where snapshots go: a directory or a URL, such as `s3://BUCKET/PREFIX` [default: the `store` setting, else .taskscope]
    #[arg(long, value_name = "ROOT")]
    pub(crate) store: Option<String>,

    /// The time between two snapshots, such as 30s or 2m [default: 2m, and longer where the `budget` setting needs it]
    #[arg(long, value_name = "DURATION")]
    pub(crate) interval: Option<Span>,

    /// The interval where none is set, for tests
    #[arg(long, hide = true, value_name = "DURATION")]
    pub(crate) default_interval: Option<Span>,

    /// The task's name, or flow/run/step/task
    #[arg(long, value_name = "PATH")]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) look: LookArgs,
}

/// Where to look.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct LookArgs {
    /// Which processes belong to the task
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Option<ScopeChoice>,

    /// Where proc is mounted [default: /proc]
    #[arg(long, value_name = "DIR")]
    pub(crate) proc_root: Option<PathBuf>,

    /// Where cgroups are mounted [default: /sys/fs/cgroup]
    #[arg(long, value_name = "DIR")]
    pub(crate) cgroup_root: Option<PathBuf>,
}

/// Which task of which store.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct StoredArgs {
    /// A directory or a URL, such as `s3://BUCKET/PREFIX` [default: the `store` setting, else .taskscope]
    #[arg(value_name = "ROOT")]
    pub(crate) root: Option<String>,

    /// The task's path [default: the newest]
    #[arg(long, value_name = "PATH")]
    pub(crate) task: Option<String>,

    /// Which attempt at it [default: the newest, and any for a snapshot's id]
    #[arg(long, value_name = "N")]
    pub(crate) attempt: Option<u32>,

    /// Which node [default: the first]
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
}

impl StoredArgs {
    pub(crate) fn wanted(&self) -> Wanted<'_> {
        Wanted {
            attempt: self.attempt,
            node: self.node.as_deref(),
            task: self.task.as_deref(),
        }
    }
}

impl Arguments {
    /// Returns whether bad usage must not be taken for the task's own status.
    pub(crate) fn wraps_a_task(&self) -> bool {
        matches!(self.command, Command::Run(_) | Command::Stage(_))
    }
}

/// Reads a UTC time.
pub(crate) fn parse_timestamp(text: &str) -> Result<model::Timestamp, String> {
    model::Timestamp::parse(text)
        .ok_or_else(|| format!("`{text}` is no UTC time such as 2026-11-29T14:40:57Z"))
}
