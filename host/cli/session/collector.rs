//! A collector at work: its line, on a thread of its own, beside its samples, its account of ends and its socket.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use plugin::{Plugins, Sinks, StorageRequest};
use store::Summary;
use supervise::{BirthsError, Connector};
use tokio::sync::mpsc::{self, UnboundedSender, unbounded_channel};
use tokio::sync::watch::Receiver;
use tracing::warn;

use super::Session;
use crate::clock::Clock;
use crate::collect::{self, Request};
use crate::control::{Board, Server, SharedStages, Socket};
use crate::ends::Ends;
use crate::fault;
use crate::judging::Judging;
use crate::ledger::Ledger;
use crate::pipeline::{Eye, Line};
use crate::sampling::Watch;
use crate::sinks;

/// The parts of a line while its store is not open yet.
pub(crate) struct Opening {
    pub(crate) eye: Arc<Mutex<Eye>>,
    pub(crate) plugins: Plugins,
    pub(crate) sinks: Sinks,
    /// What sinks ask of the store.
    pub(crate) requests: mpsc::Receiver<StorageRequest>,
    pub(crate) session: Session,
    /// The samples beside the snapshots.
    pub(crate) watch: Watch,
    pub(crate) clock: Clock,
    pub(crate) ends: Ends,
}

impl Opening {
    /// Opens the store, without waiting for it once `hurried` is true.
    pub(crate) async fn open(self, hurried: Receiver<bool>) -> Line {
        let (writer, task, store) = self.session.writer(&hurried).await;
        self.watch.opened(writer.records(), task.clone());
        tokio::spawn(sinks::serve(self.requests, store, task.clone()));
        self.ends.keep_with(writer.records());
        let disk = self.session.disk();
        Line {
            disk,
            eye: self.eye,
            plugins: self.plugins,
            sinks: self.sinks,
            writer,
            task,
            watch: Some(self.watch),
            clock: self.clock,
            ends: Some(self.ends),
            judging: Judging::new(self.session.tuning()),
        }
    }
}

/// A collector at work on a thread of its own, so that whatever happens to it does not reach the task.
pub(crate) struct Collector {
    /// How processes of the task ended.
    pub(crate) ends: Ends,
    requests: UnboundedSender<Request>,
    done: std::sync::mpsc::Receiver<Summary>,
    server: Option<Server>,
    watch: Watch,
}

impl Collector {
    /// Starts collecting, listening at `socket`, and counting what `births` tells; trouble is a warning.
    pub(crate) fn start(
        session: Session,
        eye: Eye,
        socket: Result<Socket, String>,
        births: Result<Connector, BirthsError>,
    ) -> Self {
        let (requests, receiver) = unbounded_channel();
        let board = Board::new(&session, eye.scope.root(), session.clock);
        let machine = Arc::clone(&eye.machine);
        let ends = Ends::begin(machine, eye.scope.clone(), session.clock);
        ends.follow_births(births);
        let watch = session.watch(&eye, &ends, &requests);
        let server = listen(socket, &board, &requests, &watch, &ends, session.clock);
        let (sender, done) = channel();
        let watched = watch.clone();
        let asked = requests.clone();
        ends.watch(move |trigger| {
            _ = asked.send(Request::Snapshot(trigger));
        });
        let for_line = ends.clone();
        let work = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
            {
                Ok(runtime) => runtime,
                Err(error) => {
                    return warn!("Nothing is collected: the event loop cannot start: {error}.");
                }
            };
            fault::provoke("collector");
            let clock = session.clock;
            let meter = eye.machine.meter();
            let ledger = Ledger::new(session.pace.clone(), meter, tokio::time::Instant::now());
            let plugins = session.plugins(eye.machine.helpers());
            let (sinks, requests) = session.sinks(eye.machine.helpers());
            let opening = Opening {
                eye: Arc::new(Mutex::new(eye)),
                plugins,
                sinks,
                requests,
                session,
                watch: watched,
                clock,
                ends: for_line,
            };
            let summary = runtime.block_on(collect::collect(opening, ledger, receiver, board));
            _ = sender.send(summary);
            runtime.shutdown_background(); // a capture that hangs must not hold us up
        };
        if let Err(error) = std::thread::Builder::new()
            .name("collector".to_owned())
            .spawn(work)
        {
            warn!("Nothing is collected: the collector's thread cannot start: {error}.");
        }
        Self {
            ends,
            requests,
            done,
            server,
            watch,
        }
    }

    /// Returns the samples beside the snapshots.
    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Asks for something; a collector that is gone does not answer.
    pub(crate) fn request(&self, request: Request) {
        _ = self.requests.send(request);
    }

    /// Waits until what was seen is written, for a bounded time. `None`: it failed or did not finish.
    pub(crate) fn finish(mut self, end: Request) -> Option<Summary> {
        drop(self.server.take()); // what was said last is heard first
        self.request(end);
        self.done.recv_timeout(end.finish_grace()).ok()
    }
}

/// Listens at the control socket, where there is one.
fn listen(
    socket: Result<Socket, String>,
    board: &Board,
    requests: &UnboundedSender<Request>,
    watch: &Watch,
    ends: &Ends,
    clock: Clock,
) -> Option<Server> {
    match socket {
        Ok(socket) => {
            let stages = SharedStages::new(watch.clone(), clock);
            Server::start(
                socket,
                board.clone(),
                requests.clone(),
                stages,
                ends.clone(),
            )
        }
        Err(reason) => {
            warn!(
                "There is no control socket, so `taskscope ctl` does not reach this collector: {reason}."
            );
            None
        }
    }
}
