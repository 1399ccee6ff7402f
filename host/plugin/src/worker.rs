//! The thread that calls plugins, and the one beside it that loads them.

use std::io::PipeWriter;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use model::{Annotation, Finding, PluginOutcome, Snapshot};
use tokio::sync::{mpsc, oneshot, watch};

use crate::bindings::enricher::Enricher;
use crate::compiler::Compiler;
use crate::document::Document;
use crate::engine::{self, Ticker};
use crate::entry::{About, Description, Entry};
use crate::load::{Loaded, Loader};
use crate::plugin::Plugin;

/// What the thread is asked.
pub(crate) enum Request {
    /// What the plugins say about a snapshot.
    Enrich {
        patience: Duration,
        reply: oneshot::Sender<Additions>,
        snapshot: Arc<Snapshot>,
    },
    /// What the plugins say about themselves.
    Describe {
        patience: Duration,
        reply: oneshot::Sender<Described>,
    },
}

/// What goes into a snapshot.
#[derive(Debug, Default)]
pub(crate) struct Additions {
    pub(crate) annotations: Vec<Annotation>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) outcomes: Vec<PluginOutcome>,
}

/// What each plugin says about itself, by instance.
pub(crate) type Described = Vec<(String, Result<Description, String>)>;

/// What loading an entry gave, by its place in the settings.
type Compiled = (usize, Loaded);

/// Starts the threads. They end when the returned sender is dropped.
pub(crate) fn start(
    entries: Vec<Entry>,
    about: About,
    compiler: Compiler,
    hurry: watch::Receiver<bool>,
) -> wasmtime::Result<mpsc::UnboundedSender<Request>> {
    let (sender, requests) = mpsc::unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let worker = Worker::new(entries, about, compiler, hurry)?;
    std::thread::Builder::new()
        .name("plugins".to_owned())
        .spawn(move || runtime.block_on(worker.serve(requests)))?;
    Ok(sender)
}

struct Worker {
    /// Whatever is being compiled is given up when this is dropped.
    _closing: PipeWriter,
    compiled: mpsc::UnboundedReceiver<Compiled>,
    hurry: watch::Receiver<bool>,
    /// Asks for a look at the files; one that is still under way is enough.
    looks: SyncSender<()>,
    plugins: Vec<Plugin<Enricher>>,
    ticker: Ticker,
}

impl Worker {
    fn new(
        entries: Vec<Entry>,
        about: About,
        compiler: Compiler,
        hurry: watch::Receiver<bool>,
    ) -> wasmtime::Result<Self> {
        let engine = engine::engine()?;
        let ticker = Ticker::start(engine.weak())?;
        let linker = engine::linker(&engine)?;
        let about = Arc::new(about);
        let mut plugins: Vec<Plugin<Enricher>> = entries
            .iter()
            .map(|entry| Plugin::new(entry.clone(), None, Arc::clone(&about)))
            .collect();
        let (sender, compiled) = mpsc::unbounded_channel();
        let (closing, closer) = std::io::pipe()?;
        let (looks, asked) = sync_channel(1);
        let mut loader = Loader::new::<Enricher>(engine, linker, compiler, entries, closing);
        // Here and now: what takes no compiler is ready for the first snapshot, however busy the machine.
        for (index, loaded) in loader.load_embedded() {
            plugins[index].loaded(loaded);
        }
        std::thread::Builder::new()
            .name("plugin-loader".to_owned())
            .spawn(move || {
                load(loader, &asked, |index, loaded| {
                    sender.send((index, loaded)).is_ok()
                });
            })?;
        Ok(Self {
            _closing: closer,
            compiled,
            hurry,
            looks,
            plugins,
            ticker,
        })
    }

    async fn serve(mut self, mut requests: mpsc::UnboundedReceiver<Request>) {
        while let Some(request) = requests.recv().await {
            // Whoever asked may have gone away; then nobody misses the answer.
            match request {
                Request::Enrich {
                    patience,
                    reply,
                    snapshot,
                } => {
                    let _ = self.looks.try_send(());
                    self.wait(patience).await;
                    let _ = reply.send(self.enrich(snapshot).await);
                }
                Request::Describe { patience, reply } => {
                    self.wait(patience).await;
                    let _ = reply.send(self.describe().await);
                }
            }
        }
    }

    /// Takes what is compiled; waits at most `patience` for what is not, and not at all where there is a hurry.
    async fn wait(&mut self, patience: Duration) {
        while let Ok((index, result)) = self.compiled.try_recv() {
            self.plugins[index].loaded(result);
        }
        let rest = async {
            while self.plugins.iter().any(Plugin::<Enricher>::is_compiling) {
                let Some((index, result)) = self.compiled.recv().await else {
                    break;
                };
                self.plugins[index].loaded(result);
            }
        };
        let hurried = async {
            // An error means that nobody can hurry us any more.
            if self.hurry.wait_for(|hurry| *hurry).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let waited = async {
            tokio::select! {
                biased;
                () = rest => true,
                () = hurried => false,
            }
        };
        if tokio::time::timeout(patience, waited).await == Ok(true) {
            for plugin in self
                .plugins
                .iter_mut()
                .filter(|plugin| plugin.is_compiling())
            {
                plugin.loaded(Err("the thread that compiles plugins ended".to_owned()));
            }
        }
    }

    /// One after the other, in the order of the settings: each sees what the ones before it said.
    async fn enrich(&mut self, snapshot: Arc<Snapshot>) -> Additions {
        let mut document = Arc::new(Document::new(snapshot));
        let mut outcomes = Vec::new();
        for plugin in &mut self.plugins {
            outcomes.push(plugin.enrich(&mut document, &self.ticker).await);
        }
        let document = Arc::unwrap_or_clone(document);
        Additions {
            annotations: document.added_annotations,
            findings: document.added_findings,
            outcomes,
        }
    }

    async fn describe(&mut self) -> Described {
        let mut described = Vec::new();
        for plugin in &mut self.plugins {
            let description = plugin.describe(&self.ticker).await;
            described.push((plugin.instance().to_owned(), description));
        }
        described
    }
}

/// Loads every entry once, and then what has changed, whenever it is asked to look. `bring` takes what was loaded by its place
/// in the settings, and says whether anybody is still there.
pub(crate) fn load(
    mut loader: Loader,
    asked: &Receiver<()>,
    bring: impl Fn(usize, Loaded) -> bool,
) {
    for index in loader.order() {
        let begun = std::time::Instant::now();
        let result = loader.load(index);
        let plugin = loader.instance(index);
        tracing::debug!(%plugin, elapsed = ?begun.elapsed(), "Plugin loaded.");
        if !bring(index, result) {
            return;
        }
    }
    while asked.recv().is_ok() {
        for index in 0..loader.len() {
            if let Some(result) = loader.look(index)
                && !bring(index, result)
            {
                return;
            }
        }
    }
}
