//! `taskscope run`

use std::ffi::OsString;
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Context, anyhow};
use clap::Args;
use model::Trigger;
use rustix::process::Signal;
use store::Summary;
use supervise::{Ending, Event, StartError, TaskCommand};
use tracing::warn;

use crate::args::WatchArgs;
use crate::collect::Request;
use crate::commands::World;
use crate::config::{self, Loaded};
use crate::control::{SOCKET_VARIABLE, Socket};
use crate::outcome::{Outcome, Refusal};
use crate::session::{Collector, Session};
use crate::ui;

/// Run a command and watch every process of it
///
/// The command's standard streams, signals and exit status stay exactly as they are without taskscope; a shell sees
/// 128+n when it dies of signal n. What taskscope has to say goes to stderr, each line beginning with `[taskscope]`.
/// Exit codes of its own: 125 bad usage or settings, 126 the command cannot be executed, 127 it was not found.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    watch: WatchArgs,

    /// The command and its arguments [default: the `task.command` setting, run by sh -c]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: RunArgs, world: &World) -> anyhow::Result<Outcome> {
    let loaded = config::load(world.config.as_deref())?;
    let mut command = task_command(args.command, &loaded)?;
    let session = Session::new(&args.watch, loaded, &command.program, world)?;
    let socket = Socket::bind();
    if let Ok(socket) = &socket {
        let path = socket.path.clone().into_os_string();
        command.environment.push((SOCKET_VARIABLE.into(), path));
    }
    // From here to the task's first instruction there is nothing but fork and exec.
    let started = supervise::start(&command).map_err(refuse)?;
    let pid = started.pid;
    let (sender, events) = channel();
    started.watch(move |event| _ = sender.send(event));
    let ending = watch(&session, pid, socket, &events);
    Ok(Outcome::Task(ending))
}

fn task_command(command: Vec<OsString>, loaded: &Loaded) -> anyhow::Result<TaskCommand> {
    let mut words = command.into_iter();
    if let Some(program) = words.next() {
        return Ok(TaskCommand {
            program,
            arguments: words.collect(),
            ..TaskCommand::default()
        });
    }
    let line = loaded.settings.task.command.as_ref();
    let line = line
        .context("no command is given; write `taskscope run -- COMMAND`, or set `command` under [task] in collector.toml")
        .context(Refusal::Settings)?;
    Ok(TaskCommand {
        program: "sh".into(),
        arguments: vec!["-c".into(), line.into()],
        ..TaskCommand::default()
    })
}

pub(crate) fn refuse(error: StartError) -> anyhow::Error {
    let refusal = match &error {
        StartError::NotFound { .. } => Refusal::NotFound,
        _ => Refusal::NotExecutable,
    };
    anyhow!(error).context(refusal)
}

/// Collects until the task ends. Nothing that goes wrong in here changes how it ends.
fn watch(
    session: &Session,
    pid: i32,
    socket: Result<Socket, String>,
    events: &Receiver<Event>,
) -> Ending {
    let machine = session.machine();
    let collector = match machine.identify(pid) {
        Ok(root) => {
            let adopter = i32::try_from(std::process::id()).ok();
            let eye = session.eye(machine, root, adopter);
            Some(Collector::start(session.clone(), eye, socket))
        }
        Err(error) => {
            warn!("The task cannot be watched: {error}.");
            None
        }
    };
    let ending = wait(collector.as_ref(), events);
    if let Some(collector) = collector {
        conclude(collector.finish(Request::TaskEnded), session);
    }
    ending
}

/// Passes signals on as requests until the task has ended.
pub(crate) fn wait(collector: Option<&Collector>, events: &Receiver<Event>) -> Ending {
    for event in events {
        match event {
            Event::Signal(signal) => {
                if let (Some(collector), true) = (collector, asks_to_end(signal)) {
                    collector.request(Request::Snapshot(Trigger::Signal));
                }
            }
            Event::Ended(ending) => return ending,
        }
    }
    Ending::Unknown
}

/// Whether whoever sent `signal` wants the task to end, so that this may be the last look at it.
pub(crate) fn asks_to_end(signal: i32) -> bool {
    [Signal::TERM, Signal::INT]
        .iter()
        .any(|it| it.as_raw() == signal)
}

/// Says in one line where the snapshots are; returns whether all of them are in the store.
pub(crate) fn conclude(summary: Option<Summary>, session: &Session) -> bool {
    let Some(Summary {
        stored,
        spooled,
        lost,
        recovered,
        records_lost,
        records_spooled,
        ..
    }) = summary
    else {
        warn!("The collector did not finish in time; its last snapshot may be missing.");
        return false;
    };
    let (path, location) = (&session.names.path, &session.location);
    if stored > 0 {
        let plural = if stored == 1 { "" } else { "s" };
        ui::say(&format!(
            "{stored} snapshot{plural} of {path} in {location}"
        ));
    }
    if recovered > 0 {
        let plural = if recovered == 1 { "" } else { "s" };
        ui::say(&format!(
            "{recovered} snapshot{plural} that earlier collectors had left in the spool are in {location} too"
        ));
    }
    if spooled > 0 {
        ui::say(&format!(
            "warning: {spooled} of {path} could not be stored and wait in the spool; the next collector brings them, or \
             `taskscope spool push`"
        ));
    }
    if records_spooled > 0 {
        ui::say(&format!(
            "warning: {records_spooled} of the records beside them wait in the spool as well"
        ));
    }
    spooled + lost + records_spooled + records_lost == 0
}
