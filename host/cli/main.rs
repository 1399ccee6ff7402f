//! The `taskscope` program: arguments in, an exit code out.

mod args;
mod browser;
mod clock;
mod clocks;
mod collect;
mod commands;
mod config;
mod control;
mod deadline;
mod diff;
mod ends;
mod enrichers;
mod environment;
mod fault;
mod governor;
mod growth;
mod judging;
mod ledger;
mod merged;
mod names;
mod outcome;
mod own_folder;
mod page;
mod pipeline;
mod root;
mod sampling;
mod schedule;
mod session;
mod sinks;
mod spooling;
mod stderr;
mod storage;
mod supervision;
mod ui;
mod why;
mod wishes;

use std::process::ExitCode;

use clap::Parser;

use crate::outcome::Refusal;

fn main() -> ExitCode {
    capture::share_one_heap();
    let arguments = match args::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let wraps_a_task = arguments.wraps_a_task();
    match commands::run(arguments) {
        Ok(outcome) => outcome.code(),
        Err(error) => {
            ui::say(&format!("error: {error:#}"));
            let refusal = error.downcast_ref::<Refusal>();
            refusal.map_or(ExitCode::FAILURE, |refusal| refusal.code(wraps_a_task))
        }
    }
}

/// Prints help and version to stdout, anything else to stderr with our prefix; 125 where a task would have been
/// started, so that it cannot be taken for the task's own 2.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        _ = error.print();
        return ExitCode::SUCCESS;
    }
    ui::say(error.to_string().trim_end());
    let wraps_a_task = std::env::args_os()
        .nth(1)
        .is_some_and(|command| command == "run" || command == "stage");
    Refusal::Settings.code(wraps_a_task)
}
