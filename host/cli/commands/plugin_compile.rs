//! `taskscope plugin-compile`: what a collector starts to compile a plugin.

use std::time::Duration;

use clap::Args;
use plugin::CompileLimits;

use crate::outcome::Outcome;

/// The name of this command.
pub(crate) const NAME: &str = "plugin-compile";

/// The limits, as [`CompileLimits::arguments`] writes them.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct PluginCompileArgs {
    cpu_seconds: u64,
    memory_bytes: u64,
    nice: u8,
}

pub(crate) fn run(args: PluginCompileArgs) -> Outcome {
    plugin::compile_plugin(CompileLimits {
        cpu: Duration::from_secs(args.cpu_seconds),
        memory_bytes: args.memory_bytes,
        nice: args.nice,
        ..CompileLimits::default()
    });
    Outcome::Well
}
