//! All sinks of a collector, as the rest of taskscope sees them.

use std::io::PipeWriter;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use model::{OutcomeKind, PluginOutcome, Snapshot};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep_until;

use super::delivery::{Command, Delivery};
use super::queue::Queue;
use super::{Outside, SinkEntry};
use crate::compiler::Compiler;
use crate::document::Document;
use crate::engine::{self, Ticker};
use crate::entry::{About, Description, Entry};
use crate::interface;
use crate::load::Loader;
use crate::plugin::Plugin;
use crate::worker::load;
use crate::world::Outlet;

/// How long the threads may take to end after their deadline, before they are left alone.
const ENDING: Duration = Duration::from_millis(500);

/// The sinks of a collector. Dropping it ends their threads and leaves off where they are; [`Sinks::close`] lets them
/// finish.
#[derive(Debug, Default)]
pub struct Sinks {
    queues: Vec<(String, Arc<Queue>)>,
    threads: Option<Threads>,
}

/// The threads that call sinks, one each in their order, seen from outside.
#[derive(Debug)]
struct Threads {
    commands: Vec<mpsc::UnboundedSender<Command>>,
    done: Vec<oneshot::Receiver<()>>,
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
                threads: None,
            };
        }
        let threads = start(entries, prepared, compiler).inspect_err(|error| {
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
            threads: threads.ok(),
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
        if let Some(threads) = &self.threads {
            let _ = threads.looks.try_send(());
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
            let threads = self.threads.as_ref();
            let command = threads.and_then(|threads| threads.commands.get(index));
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
        if let Some(threads) = self.threads {
            threads
                .end
                .send_replace(Instant::now().checked_add(deadline));
            let all = async {
                for ended in threads.done {
                    if ended.await.is_err() {
                        tracing::warn!("A sink came to an unexpected end.");
                    }
                }
            };
            let _ = tokio::time::timeout(deadline.saturating_add(ENDING), all).await;
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

/// Starts a thread for each sink, and the one beside them that loads them.
fn start(
    entries: Vec<SinkEntry>,
    prepared: Vec<(Plugin<Outlet>, Arc<Queue>)>,
    compiler: Compiler,
) -> wasmtime::Result<Threads> {
    let engine = engine::engine()?;
    let ticker = Arc::new(Ticker::start(engine.weak())?);
    let mut linker = engine::linker(&engine)?;
    interface::add_those_of_sinks(&mut linker)?;
    let (closing, closer) = std::io::pipe()?;
    let closer = Arc::new(closer);
    let (looks, asked) = sync_channel(1);
    let entries: Vec<Entry> = entries.into_iter().map(|sink| sink.entry).collect();
    let names: Vec<String> = entries.iter().map(|entry| entry.instance.clone()).collect();
    let mut loader = Loader::new::<Outlet>(engine, linker, compiler, entries, closing);
    let embedded = loader.load_embedded();
    let (end, ending) = watch::channel(None);
    let (mut commands, mut done) = (Vec::new(), Vec::new());
    for (name, (plugin, queue)) in names.iter().zip(prepared) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (finished, ended) = oneshot::channel();
        commands.push(sender);
        done.push(ended);
        let ticker = Arc::clone(&ticker);
        let outpost = Outpost {
            closing: Arc::clone(&closer),
            delivery: Delivery::new(plugin, queue, receiver, ending.clone(), ticker),
            ending: ending.clone(),
            finished,
        };
        outpost.start(name)?;
    }
    for (index, loaded) in embedded {
        _ = commands[index].send(Command::Loaded(loaded));
    }
    let theirs = commands.clone();
    let bring = move |index: usize, loaded| {
        _ = theirs[index].send(Command::Loaded(loaded));
        theirs.iter().any(|sink| !sink.is_closed())
    };
    std::thread::Builder::new()
        .name("sink-loader".to_owned())
        .spawn(move || load(loader, &asked, bring))?;
    Ok(Threads {
        commands,
        done,
        end,
        looks,
    })
}

/// The thread of one sink: one that is busy, or that the host works for, holds up nobody else's requests.
struct Outpost {
    /// Whatever is being compiled is given up when no sink is left.
    closing: Arc<PipeWriter>,
    delivery: Delivery,
    ending: watch::Receiver<Option<Instant>>,
    finished: oneshot::Sender<()>,
}

impl Outpost {
    /// Starts the thread, which is called after the sink.
    fn start(self, instance: &str) -> wasmtime::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(8) // names that are looked up, and files
            .build()?;
        let work = move || {
            if !runtime.block_on(run(self.delivery, self.ending)) {
                tracing::debug!("A sink did not finish before the end.");
            }
            let _ = self.finished.send(());
            drop(self.closing);
            runtime.shutdown_background(); // a name that is still looked up must not hold us up
        };
        std::thread::Builder::new()
            .name(format!("sink {instance}"))
            .spawn(work)?;
        Ok(())
    }
}

/// Runs a sink until it has ended, or until the end has passed. Returns whether it ended by itself.
async fn run(delivery: Delivery, mut ending: watch::Receiver<Option<Instant>>) -> bool {
    let over = async {
        let until = ending.wait_for(Option::is_some).await.map(|until| *until);
        match until {
            Ok(Some(until)) => sleep_until(until.into()).await,
            _ => std::future::pending().await, // it ends by itself
        }
    };
    tokio::select! {
        () = delivery.run() => true,
        () = over => false,
    }
}
