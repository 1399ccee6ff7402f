//! `taskscope run`

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context, anyhow};
use capture::Machine;
use clap::Args;
use model::{Timestamp, Trigger};
use rustix::process::Signal;
use store::Summary;
use supervise::{Connector, Ending, Event, StartError, TaskCommand};
use tracing::warn;

use crate::args::WatchArgs;
use crate::collect::Request;
use crate::commands::{World, view};
use crate::config::{self, LeftoversChoice, Loaded, SignalsChoice, Span};
use crate::control::{SOCKET_VARIABLE, Socket};
use crate::ends::Orphans;
use crate::fault;
use crate::outcome::{Outcome, Refusal};
use crate::pipeline::Eye;
use crate::session::{Collector, Session};
use crate::supervision::{Happening, Happenings, manner, members, say_who_was_killed};
use crate::ui;

/// How long what outlives the task has after SIGTERM, where no grace is set.
const LEFTOVERS_GRACE: Duration = Duration::from_secs(5);

/// Run a command and watch every process of it
///
/// The command's standard streams, signals and exit status stay exactly as they are without taskscope; a shell sees
/// 128+n when it dies of signal n. What taskscope has to say goes to stderr, each line beginning with `[taskscope]`.
/// Exit codes of its own: 125 bad usage or settings, 126 the command cannot be executed, 127 it was not found.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    watch: WatchArgs,

    /// Whom signals are forwarded to [default: the `run.signals` setting, else child]
    #[arg(long, value_name = "WHOM")]
    signals: Option<SignalsChoice>,

    /// How long after SIGTERM the task is killed if it has not ended, such as 30s [default: never]
    #[arg(long, value_name = "DURATION")]
    stop_grace: Option<Span>,

    /// Show the run as a web page on this machine while it lasts; its address is printed to stderr
    #[arg(long)]
    view: bool,

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
    let settings = &session.loaded.settings.run;
    let stop_grace = args.stop_grace.or(settings.stop_grace);
    let stop_grace = stop_grace.map(Span::duration);
    let manner = manner(args.signals.unwrap_or(settings.signals), stop_grace);
    // Before the first process of the task is born.
    let births = Connector::open();
    // From here to the task's first instruction there is nothing but fork and exec.
    let started = supervise::start(&command, manner).map_err(refuse)?;
    let task = started.pid;
    // A panic here is a crash like any other, after which something goes on in our place.
    let watched = catch_unwind(AssertUnwindSafe(|| {
        let machine = session.machine();
        let helpers = machine.helpers();
        let (sender, events) = channel();
        let orphans = Orphans::default();
        let told = orphans.clone();
        started.watch(
            members(session.machine().with_helpers(helpers), task),
            move |event| match event {
                // It is reaped when this returns.
                Event::Orphan { pid, ending } => told.ended(pid, ending),
                event => _ = sender.send(event),
            },
        );
        let eye = eye(&session, machine, task);
        if args.view {
            view::beside(&session);
        }
        let collector = eye.map(|eye| {
            let collector = Collector::start(session.clone(), eye, socket, births);
            collector.ends.take_orphans(&orphans);
            collector
        });
        watch(&session, collector, &events, stop_grace)
    }));
    let ending = watched.unwrap_or_else(|_| std::process::abort());
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

/// Returns what looks at the task whose main process is `task`. Trouble is a warning: the task runs unwatched.
fn eye(session: &Session, machine: Machine, task: i32) -> Option<Eye> {
    if !machine.numbers_as_for_us() {
        warn!(
            "The task cannot be watched: --proc-root shows PIDs that are not those of taskscope's own PID namespace; \
             `taskscope attach --pid` takes the PID that it has there."
        );
        return None;
    }
    match machine.identify(task) {
        Ok(root) => {
            let adopter = i32::try_from(std::process::id()).ok();
            Some(session.eye(machine, root, adopter))
        }
        Err(error) => {
            warn!("The task cannot be watched: {error}.");
            None
        }
    }
}

/// Collects until the task ends. Nothing that goes wrong in here changes how it ends.
fn watch(
    session: &Session,
    collector: Option<Collector>,
    events: &Receiver<Event>,
    stop_grace: Option<Duration>,
) -> Ending {
    let ask = |trigger| {
        if let Some(collector) = &collector {
            collector.request(Request::Snapshot(trigger));
        }
    };
    let (ending, told) = wait(session, events, stop_grace, ask);
    if let Some(collector) = collector {
        let over = session.now();
        collector.watch().ended(over, failure(ending));
        let ends = collector.ends.clone();
        ends.main_ended(ending);
        let is_to_end = session.loaded.settings.run.leftovers == LeftoversChoice::End;
        let grace = is_to_end.then(|| stop_grace.unwrap_or(LEFTOVERS_GRACE));
        // Before the end of the collector: who is ended here has an obituary like all others.
        let leftovers = ends.leftovers(grace);
        conclude(collector.finish(Request::TaskEnded), session);
        ui::say(&leftovers.join("\n"));
        ui::say(&ends.words(ending, Some(over), &told).join("\n"));
    }
    ending
}

/// Returns how a task failed, in words; nothing where it did not, or nobody knows.
fn failure(ending: Ending) -> Option<String> {
    match ending {
        Ending::Exited(0) | Ending::Unknown => None,
        Ending::Exited(status) => Some(format!("exit status {status}")),
        Ending::Killed { signal, .. } => Some(format!("signal {signal}")),
    }
}

/// What a signal has done before it is told of here.
const SINCE_SIGNAL: Duration = Duration::from_millis(50);

/// Passes signals and the deadline on as requests until the task has ended. Returns how it did, and when it was told to.
fn wait(
    session: &Session,
    events: &Receiver<Event>,
    stop_grace: Option<Duration>,
    ask: impl Fn(Trigger),
) -> (Ending, Vec<Timestamp>) {
    fault::provoke("main");
    let mut happenings = Happenings::of(events, session);
    let mut told = Vec::new();
    while let Some(happening) = happenings.next() {
        match happening {
            Happening::Deadline => ask(Trigger::Deadline),
            Happening::Event(Event::Signal(signal)) if asks_to_end(signal) => {
                told.push(session.now().before(SINCE_SIGNAL));
                ask(Trigger::Signal);
            }
            Happening::Event(Event::Signal(_)) | Happening::Round => {}
            Happening::Event(Event::Ended(ending)) => return (ending, told),
            Happening::Event(event) => say_who_was_killed(&event, stop_grace),
        }
    }
    (Ending::Unknown, told)
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
