//! `taskscope plugin`: what a component is, what the settings load, and what a plugin says about stored snapshots.

mod check;
mod component;
mod grants;
mod list;
mod test;
mod words;

use clap::{Args, Subcommand};

use crate::commands::World;
use crate::config;
use crate::outcome::Outcome;

/// Check a plugin, list those that the settings load, or run one on stored snapshots
#[derive(Args, Debug)]
pub(crate) struct PluginArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Check(check::CheckArgs),
    List(list::ListArgs),
    Test(test::TestArgs),
}

pub(crate) fn run(args: PluginArgs, world: &World) -> anyhow::Result<Outcome> {
    let loaded = config::load(world.config.as_deref())?;
    match args.action {
        Action::Check(args) => check::run(&args, &loaded),
        Action::List(args) => list::run(&args, &loaded),
        Action::Test(args) => test::run(&args, &loaded),
    }
}
