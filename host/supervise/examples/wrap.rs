//! The smallest wrapper: `wrap run COMMAND…` ends as the command ends, `wrap attach PID` when the process does. `wrap group`
//! is as `run` for the task's process group, `wrap patient` has a grace of half a second, `wrap late` ends when there is a file `end`,
//! `wrap orphans` tells of each that it reaps.
//! It names on stderr each signal that came to it; the tests of this crate look at it from outside.
#![expect(clippy::print_stderr, reason = "an example speaks for itself")]

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use taskscope_supervise::{
    Event, Manner, Recipients, TaskCommand, end_like, stand_in, start, watch_process,
};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let mode = arguments.next().expect("`run` or `attach`");
    let (is_late, tells_orphans) = (mode == "late", mode == "orphans");
    let (sender, events) = channel();
    let begun = match mode.to_str() {
        Some("attach") => attach(arguments.next(), sender),
        Some("stand-in") => return go_on(arguments.next()),
        mode => run(arguments.collect(), manner(mode), sender),
    };
    if let Err((message, code)) = begun {
        eprintln!("{message}");
        return ExitCode::from(code);
    }
    for event in events {
        match event {
            Event::Signal(number) => eprintln!("signal {number}"),
            Event::OutOfGrace(_) => eprintln!("killed"),
            Event::Orphan { ending, .. } if tells_orphans => eprintln!("orphan {ending}"),
            Event::Orphan { .. } => {}
            Event::Ended(ending) => {
                while is_late && !std::path::Path::new("end").exists() {
                    std::thread::sleep(Duration::from_millis(5));
                }
                return end_like(ending);
            }
        }
    }
    ExitCode::FAILURE
}

fn manner(mode: Option<&str>) -> Manner {
    let recipients = match mode {
        Some("group") => Recipients::Group,
        _ => Recipients::Child,
    };
    Manner {
        recipients,
        stop_grace: (mode == Some("patient")).then_some(Duration::from_millis(500)),
        stand_in: ["wrap", "stand-in"].map(OsString::from).to_vec(),
    }
}

fn run(
    mut words: Vec<OsString>,
    manner: Manner,
    sender: Sender<Event>,
) -> Result<(), (String, u8)> {
    let arguments = words.split_off(1);
    let program = words.pop().expect("a command");
    let command = TaskCommand {
        program,
        arguments,
        ..TaskCommand::default()
    };
    let started =
        start(&command, manner).map_err(|error| (error.to_string(), error.exit_code()))?;
    started.watch(Box::new(Vec::new), move |event| hand_over(&sender, event));
    Ok(())
}

fn go_on(task: Option<OsString>) -> ExitCode {
    let task = task.and_then(|task| task.to_str()?.parse().ok());
    eprintln!("stand-in");
    let manner = Manner::default();
    let ending = stand_in(task.expect("a PID"), &manner, Box::new(Vec::new), |_| {});
    end_like(ending.expect("a child"))
}

fn attach(pid: Option<OsString>, sender: Sender<Event>) -> Result<(), (String, u8)> {
    let pid = pid
        .and_then(|pid| pid.to_str()?.parse().ok())
        .expect("a PID");
    watch_process(Some(pid), move |event| hand_over(&sender, event))
        .map_err(|error| (error.to_string(), 1))
}

fn hand_over(sender: &Sender<Event>, event: Event) {
    // Nobody receives any more once `main` is on its way out.
    let _ = sender.send(event);
}
