//! The smallest wrapper: `wrap run COMMAND…` ends as the command ends, `wrap attach PID` when the process does.
//! It names on stderr each signal that came to it; the tests of this crate look at it from outside.
#![expect(clippy::print_stderr, reason = "an example speaks for itself")]

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};

use taskscope_supervise::{Event, TaskCommand, end_like, start, watch_process};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let mode = arguments.next().expect("`run` or `attach`");
    let (sender, events) = channel();
    let begun = if mode == "run" {
        run(arguments.collect(), sender)
    } else {
        attach(arguments.next(), sender)
    };
    if let Err((message, code)) = begun {
        eprintln!("{message}");
        return ExitCode::from(code);
    }
    for event in events {
        match event {
            Event::Signal(number) => eprintln!("signal {number}"),
            Event::Ended(ending) => return end_like(ending),
        }
    }
    ExitCode::FAILURE
}

fn run(mut words: Vec<OsString>, sender: Sender<Event>) -> Result<(), (String, u8)> {
    let arguments = words.split_off(1);
    let program = words.pop().expect("a command");
    let started = start(&TaskCommand {
        program,
        arguments,
        ..TaskCommand::default()
    })
    .map_err(|error| (error.to_string(), error.exit_code()))?;
    started.watch(move |event| hand_over(&sender, event));
    Ok(())
}

fn attach(pid: Option<OsString>, sender: Sender<Event>) -> Result<(), (String, u8)> {
    let pid = pid
        .and_then(|pid| pid.to_str()?.parse().ok())
        .expect("a PID");
    watch_process(pid, move |event| hand_over(&sender, event))
        .map_err(|error| (error.to_string(), 1))
}

fn hand_over(sender: &Sender<Event>, event: Event) {
    // Nobody receives any more once `main` is on its way out.
    let _ = sender.send(event);
}
