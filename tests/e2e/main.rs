//! One test binary on the real program; one file a command, and the guards over the whole.
#![expect(
    clippy::unwrap_used,
    clippy::float_cmp,
    clippy::print_stderr,
    reason = "tests"
)]

mod architecture;
mod bench;
mod budget;
mod control;
mod doctor;
mod environments;
mod gpus;
mod guards;
mod harmless;
mod job;
mod plugin_commands;
mod plugins;
mod read;
mod run;
mod services;
mod settings;
mod sinks;
mod stored;
mod support;
mod unprivileged;
mod why;
