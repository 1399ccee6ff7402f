//! One test binary on the real program; one file a command, and the guards over the whole.
#![expect(
    clippy::unwrap_used,
    clippy::float_cmp,
    clippy::print_stderr,
    reason = "tests"
)]

mod architecture;
mod attach;
mod bench;
mod budget;
mod causes;
mod ci;
mod control;
mod deadline;
mod doctor;
mod ends;
mod entrypoint;
mod environments;
mod exhaustion;
mod gpus;
mod guards;
mod harmless;
mod init_demands;
mod job;
mod leftovers;
mod live;
mod monitor;
mod nodes;
mod our_failures;
mod out_of_memory;
mod plugin_commands;
mod plugins;
mod read;
mod run;
mod services;
mod settings;
mod sinks;
mod stages;
mod stored;
mod support;
mod terminal;
mod torch;
mod unprivileged;
mod view;
mod why;
