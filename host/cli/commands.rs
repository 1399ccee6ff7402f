//! One command, one file: its arguments, whose doc comments are the help, and what it does.

pub(crate) mod attach;
pub(crate) mod config;
pub(crate) mod ctl;
pub(crate) mod debug;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod list;
pub(crate) mod plugin;
pub(crate) mod plugin_compile;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod snapshot;
pub(crate) mod spool;
pub(crate) mod stage;
pub(crate) mod stand_in;
pub(crate) mod view;
pub(crate) mod why;

use crate::args::{Arguments, Command};
use crate::clock::Clock;
use crate::outcome::Outcome;
use crate::ui::{self, Ui};

/// What every command may need of the outside.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) config: Option<std::path::PathBuf>,
    pub(crate) ui: Ui,
}

/// Runs the command that `arguments` name.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    // Helpers of ours, which have nothing to say to a person.
    let (input, output) = (std::io::stdin(), std::io::stdout());
    match arguments.command {
        Command::GpuHelper => drop(capture::gpu_helper(input, output)),
        Command::MemoryHelper => drop(capture::memory_helper(input, output)),
        Command::StackHelper => drop(capture::stack_helper(input, output)),
        Command::PluginCompile(args) => return Ok(plugin_compile::run(args)),
        _ => return run_here(arguments),
    }
    Ok(Outcome::Well)
}

fn run_here(arguments: Arguments) -> anyhow::Result<Outcome> {
    ui::start_logging();
    let world = World {
        clock: arguments.now.map_or(Clock::System, Clock::Fixed),
        config: arguments.config,
        ui: Ui::new(arguments.color),
    };
    match arguments.command {
        Command::Run(args) => run::run(args, &world),
        Command::Attach(args) => attach::run(&args, &world),
        Command::Snapshot(args) => snapshot::run(&args, &world),
        Command::Ctl(args) => ctl::run(&args, &world),
        Command::Stage(args) => stage::run(args),
        Command::List(args) => list::run(&args, &world),
        Command::Show(args) => show::run(&args, &world),
        Command::Report(args) => report::run(&args, &world),
        Command::Spool(args) => spool::run(&args, &world),
        Command::View(args) => view::run(&args, &world),
        Command::Why(args) => why::run(&args, &world),
        Command::Diff(args) => diff::run(&args, &world),
        Command::Config(args) => config::run(&args, &world),
        Command::Debug(args) => debug::run(&args, &world),
        Command::Doctor(args) => doctor::run(&args, &world),
        Command::Plugin(args) => plugin::run(args, &world),
        Command::StandIn(args) => Ok(stand_in::run(&args)),
        Command::GpuHelper
        | Command::MemoryHelper
        | Command::StackHelper
        | Command::PluginCompile(_) => Ok(Outcome::Well),
    }
}
