//! `taskscope attach`

use std::ffi::OsString;
use std::sync::mpsc::{Receiver, channel};

use anyhow::Context;
use clap::Args;
use model::Trigger;
use supervise::Event;

use crate::args::WatchArgs;
use crate::collect::Request;
use crate::commands::World;
use crate::commands::run::{asks_to_end, conclude};
use crate::config;
use crate::control::Socket;
use crate::outcome::Outcome;
use crate::session::{Collector, Session};
use crate::ui;

/// Watch a running process and all that belongs to it, until it ends
///
/// SIGTERM or SIGINT takes one more snapshot and ends the watching; the process goes on untouched.
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
    let (sender, events) = channel();
    supervise::watch_process(args.pid, move |event| _ = sender.send(event))
        .with_context(|| format!("cannot watch process {}", args.pid))?;
    let machine = session.machine();
    let root = machine.identify(args.pid)?;
    let eye = session.eye(machine, root, None);
    let socket = Socket::bind();
    if let Ok(socket) = &socket {
        let path = socket.path.display();
        ui::say(&format!(
            "`taskscope ctl --socket {path}` steers this collector"
        ));
    }
    let collector = Collector::start(session.clone(), eye, socket);
    let end = wait(&collector, &events);
    let all_stored = conclude(collector.finish(end), &session);
    Ok(if all_stored {
        Outcome::Well
    } else {
        Outcome::Setbacks
    })
}

/// Waits until the process has ended or we are told to stop, which is worth one more look.
fn wait(collector: &Collector, events: &Receiver<Event>) -> Request {
    for event in events {
        match event {
            Event::Signal(signal) if asks_to_end(signal) => {
                collector.request(Request::Snapshot(Trigger::Signal));
                return Request::Stop;
            }
            Event::Signal(_) => {}
            Event::Ended(_) => break,
        }
    }
    Request::TaskEnded
}
