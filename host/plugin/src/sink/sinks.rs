//! All sinks of a collector, as the rest of taskscope sees them.

use std::io::PipeWriter;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use model::{OutcomeKind, PluginOutcome, Snapshot};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::sleep_until;

use super::delivery::{Command, Delivery};
use super::queue::Queue;
use super::{Outside, SinkEntry};
use crate::compiler::Compiler;
use crate::document::Document;
use crate::engine::{self, Ticker};
use crate::entry::{About, Description};
use crate::interface;
use crate::load::Loader;
use crate::plugin::Plugin;
use crate::worker::{Compiled, load};
use crate::world::Outlet;

/// How long the thread may take to end after its deadline, before it is left alone.
const ENDING: Duration = Duration::from_millis(500);

/// The sinks of a collector. Dropping it ends their threads and leaves off where they are; [`Sinks::close`] lets them
/// finish.
#[derive(Debug, Default)]
pub struct Sinks {
    queues: Vec<(String, Arc<Queue>)>,
    thread: Option<Thread>,
}

/// The thread that calls sinks, seen from outside.
#[derive(Debug)]
struct Thread {
    commands: Vec<mpsc::UnboundedSender<Command>>,
    done: oneshot::Receiver<()>,
    end: watch::Sender<Option<Instant>>,
    /// Asks for a look at the files; one that is still under way is enough.
    looks: SyncSender<()>,
}

impl Sinks {
    /// Begins to load `entries` and returns at once. What cannot be loaded shows up as an outcome.
    pub fn load(entries: Vec<SinkEntry>, about: About, compiler: Compiler) -> Self {
        let about = Arc::new(about);
        let prepare = |sink: &SinkEntry| {
            let outside = Arc::new(Outside::new(sink.grants.clone()));
            let plugin = Plugin::new(sink.entry.clone(), Some(outside), Arc::clone(&about));
            let queue = Arc::new(Queue::new(plugin.untried()));
            (plugin, queue)
        };
        let prepared: Vec<_> = entries.iter().map(prepare).collect();
        let named = |(sink, (_, queue)): (&SinkEntry, &(_, Arc<Queue>))| {
            (sink.entry.instance.clone(), Arc::clone(queue))
        };
        let queues: Vec<_> = entries.iter().zip(&prepared).map(named).collect();
        if entries.is_empty() {
            return Self {
                queues,
                thread: None,
            };
        }
        let thread = start(entries, prepared, compiler).inspect_err(|error| {
            let reason = error.root_cause().to_string();
            tracing::warn!("Sinks cannot run here: {reason}.");
            for (_, queue) in &queues {
                queue.set(|outcome| {
                    outcome.outcome = OutcomeKind::LoadFailed;
                    outcome.message = Some(reason.clone());
                });
            }
        });
        Self {
            queues,
            thread: thread.ok(),
        }
    }

    /// Returns how each sink is and what became of the snapshots so far, for the next one.
    pub fn outcomes(&self) -> Vec<PluginOutcome> {
        self.queues
            .iter()
            .map(|(_, queue)| queue.outcome())
            .collect()
    }

    /// Gives a finished snapshot to every sink. Returns at once: what there is no room for is dropped and counted.
    pub fn offer(&self, snapshot: Snapshot) {
        if self.queues.is_empty() {
            return;
        }
        if let Some(thread) = &self.thread {
            let _ = thread.looks.try_send(());
        }
        let document = Arc::new(Document::new(Arc::new(snapshot)));
        for (_, queue) in &self.queues {
            queue.push(Arc::clone(&document));
        }
    }

    /// Returns what each sink says about itself, by instance, or why it cannot run. Waits at most `patience`.
    pub async fn ready(&self, patience: Duration) -> Vec<(String, Result<Description, String>)> {
        let until = tokio::time::Instant::now() + patience;
        let mut ready = Vec::new();
        for (index, (instance, queue)) in self.queues.iter().enumerate() {
            let (reply, answer) = oneshot::channel();
            let command = self
                .thread
                .as_ref()
                .and_then(|thread| thread.commands.get(index));
            let asked =
                command.is_some_and(|command| command.send(Command::Describe(reply)).is_ok());
            let said = match (asked, tokio::time::timeout_at(until, answer).await) {
                (true, Ok(Ok(said))) => said,
                (true, Err(_)) => Err("it is still being compiled".to_owned()),
                _ => Err(queue
                    .outcome()
                    .message
                    .unwrap_or_else(|| "its thread ended".to_owned())),
            };
            ready.push((instance.clone(), said));
        }
        ready
    }

    /// Lets the sinks deliver what waits and close, for `deadline` at most. What is lost is a warning.
    pub async fn close(self, deadline: Duration) {
        if let Some(thread) = self.thread {
            thread
                .end
                .send_replace(Instant::now().checked_add(deadline));
            let _ = tokio::time::timeout(deadline.saturating_add(ENDING), thread.done).await;
        }
        for (instance, queue) in &self.queues {
            let message = queue.outcome().message;
            let lost = queue.lose_all("taskscope ended");
            if lost > 0 {
                let snapshots = if lost == 1 {
                    "snapshot was"
                } else {
                    "snapshots were"
                };
                let reason = message
                    .map(|message| format!(": {message}"))
                    .unwrap_or_default();
                tracing::warn!(
                    "Sink {instance}: {lost} {snapshots} not delivered before the end{reason}."
                );
            }
        }
    }
}

/// Starts the thread that calls sinks, and the one beside it that loads them.
fn start(
    entries: Vec<SinkEntry>,
    prepared: Vec<(Plugin<Outlet>, Arc<Queue>)>,
    compiler: Compiler,
) -> wasmtime::Result<Thread> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(8) // names that are looked up, and files
        .build()?;
    let engine = engine::engine()?;
    let ticker = Arc::new(Ticker::start(engine.weak())?);
    let mut linker = engine::linker(&engine)?;
    interface::add_those_of_sinks(&mut linker)?;
    let (closing, closer) = std::io::pipe()?;
    let (looks, asked) = sync_channel(1);
    let (sender, compiled) = mpsc::unbounded_channel();
    let entries = entries.into_iter().map(|sink| sink.entry).collect();
    let mut loader = Loader::new::<Outlet>(engine, linker, compiler, entries, closing);
    let embedded = loader.load_embedded();
    std::thread::Builder::new()
        .name("sink-loader".to_owned())
        .spawn(move || load(loader, &asked, &sender))?;
    let (end, ending) = watch::channel(None);
    let (finished, done) = oneshot::channel();
    let mut commands = Vec::new();
    let mut deliveries = Vec::new();
    for (plugin, queue) in prepared {
        let (sender, receiver) = mpsc::unbounded_channel();
        commands.push(sender);
        let ticker = Arc::clone(&ticker);
        deliveries.push(Delivery::new(
            plugin,
            queue,
            receiver,
            ending.clone(),
            ticker,
        ));
    }
    for (index, loaded) in embedded {
        _ = commands[index].send(Command::Loaded(loaded));
    }
    let router = Router {
        _closing: closer,
        commands: commands.clone(),
        compiled,
    };
    let work = move || {
        let local = LocalSet::new();
        runtime.block_on(local.run_until(serve(deliveries, router, ending)));
        let _ = finished.send(());
        drop(local);
        runtime.shutdown_background(); // a name that is still looked up must not hold us up
    };
    std::thread::Builder::new()
        .name("sinks".to_owned())
        .spawn(work)?;
    Ok(Thread {
        commands,
        done,
        end,
        looks,
    })
}

/// Brings what was loaded to the sink that it is for.
struct Router {
    /// Whatever is being compiled is given up when this is dropped.
    _closing: PipeWriter,
    commands: Vec<mpsc::UnboundedSender<Command>>,
    compiled: mpsc::UnboundedReceiver<Compiled>,
}

impl Router {
    async fn run(mut self) {
        while let Some((index, loaded)) = self.compiled.recv().await {
            let _ = self.commands[index].send(Command::Loaded(loaded));
        }
        std::future::pending::<()>().await;
    }
}

/// Runs all sinks until they have ended, or until the end has passed.
async fn serve(
    deliveries: Vec<Delivery>,
    router: Router,
    mut ending: watch::Receiver<Option<Instant>>,
) {
    let mut sinks = JoinSet::new();
    for delivery in deliveries {
        sinks.spawn_local(delivery.run());
    }
    let all = async {
        while let Some(ended) = sinks.join_next().await {
            if ended.is_err() {
                tracing::warn!("A sink came to an unexpected end.");
            }
        }
    };
    let over = async {
        let until = ending.wait_for(Option::is_some).await.map(|until| *until);
        match until {
            Ok(Some(until)) => sleep_until(until.into()).await,
            _ => std::future::pending().await, // they end by themselves
        }
    };
    tokio::select! {
        () = all => {}
        () = over => {}
        () = router.run() => {}
    }
}
