//! `taskscope debug`: for whoever reports or looks for a fault of taskscope itself.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};

use crate::args::LookArgs;
use crate::commands::World;
use crate::config;
use crate::outcome::Outcome;
use crate::session;

/// Look for a fault of taskscope itself
#[derive(Args, Debug)]
pub(crate) struct DebugArgs {
    #[command(subcommand)]
    command: DebugCommand,
}

#[derive(Debug, Subcommand)]
enum DebugCommand {
    RecordMachine(RecordMachineArgs),
}

/// Record what a capture of a task reads, for --proc-root and --cgroup-root
///
/// Values of variables are dropped and arguments are redacted, but names of files, processes and cgroups remain: look
/// through the files before you pass them on.
#[derive(Args, Debug)]
struct RecordMachineArgs {
    /// A new directory; its `proc` and `cgroup` are the roots
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// The main process of the task
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,

    #[command(flatten)]
    look: LookArgs,
}

pub(crate) fn run(args: &DebugArgs, world: &World) -> anyhow::Result<Outcome> {
    let DebugCommand::RecordMachine(args) = &args.command;
    let loaded = config::load(world.config.as_deref())?;
    let machine = session::machine(&args.look, &loaded);
    let redact = &loaded.settings.capture.redact;
    let redact: Vec<regex::Regex> = redact.iter().map(|pattern| pattern.0.clone()).collect();
    let mut scope = capture::Scope::tree(machine.identify(args.pid)?, None);
    let targets = capture::discover(&machine, &mut scope)?;
    std::fs::create_dir(&args.directory)
        .with_context(|| format!("cannot make {}", args.directory.display()))?;
    capture::record(&machine, &targets, &redact, &args.directory)?;
    Ok(Outcome::Well)
}
