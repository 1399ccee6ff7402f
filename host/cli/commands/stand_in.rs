//! `taskscope stand-in`: what a `run` becomes that has crashed.

use std::time::Duration;

use capture::StackSource;
use clap::Args;
use supervise::{Ending, Manner};
use tracing::warn;

use crate::config::SignalsChoice;
use crate::outcome::Outcome;
use crate::supervision::{members, say_who_was_killed};

/// Go on in the place of a `run` that crashed: signals and exit status, and nothing else
#[derive(Args, Debug)]
pub(crate) struct StandInArgs {
    /// Whom signals are forwarded to
    #[arg(long)]
    signals: SignalsChoice,

    /// How long after SIGTERM the task is killed, milliseconds
    #[arg(long)]
    stop_grace: Option<u64>,

    /// The main process of the task
    task: i32,

    /// The signal that ended what was here before
    signal: i32,
}

pub(crate) fn run(args: &StandInArgs) -> Outcome {
    let crash = Ending::Killed {
        core_dumped: false,
        signal: args.signal,
    };
    warn!(
        "taskscope crashed ({crash}): the task is no longer watched; it goes on, and its signals and exit status as ever."
    );
    let manner = Manner {
        recipients: args.signals.recipients(),
        stop_grace: args.stop_grace.map(Duration::from_millis),
        stand_in: Vec::new(),
    };
    let machine = capture::Machine::local(capture::StackSettings {
        source: StackSource::Off,
        timeout: Duration::ZERO,
        nonblocking: true,
        max_parallel: 1,
    });
    let members = members(machine, args.task);
    let ending = supervise::stand_in(args.task, &manner, members, |event| {
        say_who_was_killed(&event, manner.stop_grace);
    });
    Outcome::Task(ending.unwrap_or_else(|reason| {
        warn!("The task cannot be waited for: {reason}.");
        Ending::Unknown
    }))
}
