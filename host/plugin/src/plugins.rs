//! All plugins of a collector, as the rest of taskscope sees them.

use std::sync::Arc;
use std::time::Duration;

use model::{OutcomeKind, PluginOutcome, Snapshot};
use tokio::sync::{mpsc, oneshot, watch};

use crate::compiler::Compiler;
use crate::entry::{About, Description, Entry};
use crate::worker::{self, Additions, Described, Request};

/// The plugins of a collector. Dropping it ends their threads.
#[derive(Debug)]
pub struct Plugins {
    hurry: Hurry,
    instances: Vec<String>,
    worker: Result<Option<mpsc::UnboundedSender<Request>>, String>,
}

/// Tells plugins, from anywhere, that nobody has time to wait any more for those that are still being compiled.
#[derive(Clone, Debug)]
pub struct Hurry(watch::Sender<bool>);

impl Hurry {
    /// Ends every wait, now and later.
    pub fn up(&self) {
        self.0.send_replace(true);
    }
}

impl Plugins {
    /// Begins to load `entries` and returns at once. What cannot be loaded shows up as an outcome.
    pub fn load(entries: Vec<Entry>, about: About, compiler: Compiler) -> Self {
        let hurry = Hurry(watch::Sender::new(false));
        let instances: Vec<String> = entries.iter().map(|entry| entry.instance.clone()).collect();
        let mut plugins = Self {
            hurry: hurry.clone(),
            instances,
            worker: Ok(None),
        };
        if entries.is_empty() {
            return plugins;
        }
        match worker::start(entries, about, compiler, hurry.0.subscribe()) {
            Ok(worker) => plugins.worker = Ok(Some(worker)),
            Err(error) => plugins.give_up(error.root_cause().to_string()),
        }
        plugins
    }

    /// Returns what ends the waiting of [`Plugins::enrich`] while it is under way.
    pub fn hurry(&self) -> Hurry {
        self.hurry.clone()
    }

    /// Returns `snapshot` with what the plugins say about it, and with one outcome for each. Waits at most `patience`
    /// for those that are still being compiled, and for each call no longer than the deadline of its entry.
    pub async fn enrich(&mut self, mut snapshot: Snapshot, patience: Duration) -> Snapshot {
        if self.instances.is_empty() {
            return snapshot;
        }
        let shared = Arc::new(snapshot);
        let ours = Arc::clone(&shared);
        let answer = self
            .ask(|reply| Request::Enrich {
                patience,
                reply,
                snapshot: ours,
            })
            .await;
        snapshot = Arc::unwrap_or_clone(shared);
        let additions = answer.unwrap_or_else(|reason| {
            let nothing = self.nothing(&reason);
            self.give_up(reason);
            nothing
        });
        snapshot.annotations.extend(additions.annotations);
        snapshot.findings.extend(additions.findings);
        snapshot.plugins.extend(additions.outcomes);
        snapshot
    }

    /// Returns what each plugin says about itself, by instance, or why it cannot run. Waits as [`Plugins::enrich`].
    pub async fn ready(
        &mut self,
        patience: Duration,
    ) -> Vec<(String, Result<Description, String>)> {
        let answer: Result<Described, String> = self
            .ask(|reply| Request::Describe { patience, reply })
            .await;
        answer.unwrap_or_else(|reason| {
            let failed = |instance: &String| (instance.clone(), Err(reason.clone()));
            self.instances.iter().map(failed).collect()
        })
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, String> {
        const GONE: &str = "the thread that runs plugins ended";
        let Some(worker) = self.worker.as_ref().map_err(Clone::clone)? else {
            return Err("there are no plugins".to_owned());
        };
        let (reply, answer) = oneshot::channel();
        worker.send(request(reply)).map_err(|_| GONE.to_owned())?;
        answer.await.map_err(|_| GONE.to_owned())
    }

    /// From now on every outcome is `reason`; told once.
    fn give_up(&mut self, reason: String) {
        if self.worker.is_ok() {
            tracing::warn!("Plugins cannot run here: {reason}.");
            self.worker = Err(reason);
        }
    }

    fn nothing(&self, reason: &str) -> Additions {
        let outcome = |instance: &String| PluginOutcome {
            annotations: 0,
            duration_us: None,
            findings: 0,
            instance: instance.clone(),
            memory_bytes: None,
            message: Some(reason.to_owned()),
            outcome: OutcomeKind::LoadFailed,
            sink: None,
            version: None,
        };
        Additions {
            outcomes: self.instances.iter().map(outcome).collect(),
            ..Additions::default()
        }
    }
}
