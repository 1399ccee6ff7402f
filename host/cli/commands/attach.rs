//! `taskscope attach`

use std::ffi::OsString;
use std::sync::mpsc::{Receiver, channel};

use anyhow::Context;
use capture::CaptureError;
use clap::Args;
use model::{ProcessId, Trigger};
use supervise::{Connector, Ending, Event};
use tracing::warn;

use crate::args::WatchArgs;
use crate::collect::Request;
use crate::commands::World;
use crate::commands::run::{asks_to_end, conclude};
use crate::config;
use crate::control::Socket;
use crate::outcome::Outcome;
use crate::session::{Collector, Session};
use crate::supervision::{Happening, Happenings};
use crate::ui;

/// Watch a running process and all that belongs to it, until all of it has ended
///
/// SIGTERM or SIGINT takes one more snapshot and ends the watching; the processes go on untouched.
#[derive(Args, Debug)]
pub(crate) struct AttachArgs {
    /// The process
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,

    #[command(flatten)]
    watch: WatchArgs,
}

pub(crate) fn run(args: &AttachArgs, world: &World) -> anyhow::Result<Outcome> {
    let loaded = config::load(world.config.as_deref())?;
    let program = OsString::from(format!("pid-{}", args.pid));
    let session = Session::new(&args.watch, loaded, &program, world)?;
    let machine = session.machine();
    let cannot = || format!("cannot watch process {}", args.pid);
    let root = machine.watchable(args.pid).with_context(cannot)?;
    let (sender, events) = channel();
    let is_held = machine.numbers_as_for_us();
    if !is_held {
        warn!(
            "--proc-root shows PIDs that are not those of taskscope's own PID namespace: ends are found out by looking, how \
             processes ended is known only while they are zombies."
        );
    }
    let held = is_held.then_some(args.pid);
    supervise::watch_process(held, move |event| _ = sender.send(event)).with_context(cannot)?;
    // What is held now is what was looked at before: the PID was not used again meanwhile.
    let held = machine.identify(args.pid)?;
    if held != root {
        return Err(CaptureError::NothingLeft { root }).with_context(cannot);
    }
    let births = Connector::open();
    let eye = session.eye(machine, root, None);
    let socket = Socket::bind();
    if let Ok(socket) = &socket {
        let path = socket.path.display();
        ui::say(&format!(
            "`taskscope ctl --socket {path}` steers this collector"
        ));
    }
    let collector = Collector::start(session.clone(), eye, socket, births);
    let end = wait(&session, &collector, root, &events);
    let ends = collector.ends.clone();
    let all_stored = conclude(collector.finish(end), &session);
    ui::say(&ends.words(Ending::Unknown, None, &[]).join("\n"));
    Ok(if all_stored {
        Outcome::Well
    } else {
        Outcome::Setbacks
    })
}

/// Waits until every process of the task has ended or we are told to stop, which is worth one more look.
fn wait(
    session: &Session,
    collector: &Collector,
    root: ProcessId,
    events: &Receiver<Event>,
) -> Request {
    let mut happenings = Happenings::of(events, session).with_rounds();
    // Where nobody tells of its end, whether anybody is left is asked from the start.
    let mut main_process_has_ended = !session.machine().numbers_as_for_us();
    while let Some(happening) = happenings.next() {
        match happening {
            Happening::Deadline => collector.request(Request::Snapshot(Trigger::Deadline)),
            Happening::Event(Event::Signal(signal)) if asks_to_end(signal) => {
                collector.request(Request::Snapshot(Trigger::Signal));
                return Request::Stop;
            }
            Happening::Event(Event::Ended(_)) => {
                main_process_has_ended = true;
                match collector.ends.look() {
                    0 => break,
                    count => ui::say(&format!(
                        "process {} has ended; {count} that belong to it go on, and are watched until they end",
                        root.pid
                    )),
                }
            }
            Happening::Event(_) => {}
            // Who belongs to the task is looked for by samples; what they have found is asked first.
            Happening::Round => {
                if main_process_has_ended
                    && !collector.ends.knows_the_living()
                    && collector.ends.look() == 0
                {
                    break;
                }
            }
        }
    }
    Request::TaskEnded
}
