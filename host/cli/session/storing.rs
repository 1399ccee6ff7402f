//! Where a collector's snapshots go: the store, the attempt, and the spool they wait in.

use std::time::Duration;

use model::Task;
use store::{Place, SpoolSettings, Store, Writer};
use tokio::sync::watch::Receiver;
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::Session;
use crate::config::SpoolChoices;
use crate::spooling;

/// How long finding a free attempt may take before 0 is taken.
const OPEN_DEADLINE: Duration = Duration::from_secs(5);
/// How long the index of a store that does not answer is waited for, and how long a disk that may hold the spool.
const INDEX_DEADLINE: Duration = Duration::from_secs(10);
/// How long a store may take once the task has ended: a directory answers, and nobody notices.
const HURRIED_DEADLINE: Duration = Duration::from_millis(100);
const SPOOL_DEADLINE: Duration = Duration::from_secs(2);

impl Session {
    /// Returns where snapshots wait. A dead mount must not hold us up.
    async fn spool(&self) -> SpoolSettings {
        let (location, choices) = (self.location.clone(), self.spool_choices().clone());
        let looking = tokio::task::spawn_blocking(move || spooling::spool(&location, &choices));
        match timeout(SPOOL_DEADLINE, looking).await {
            Ok(Ok(spool)) => spool,
            Ok(Err(_)) | Err(_) => SpoolSettings {
                directory: spooling::of_the_user(&self.location.file_name()),
                max_size_bytes: self.spool_choices().max_size.bytes(),
            },
        }
    }

    fn spool_choices(&self) -> &SpoolChoices {
        &self.loaded.settings.store.spool
    }

    /// Opens the store and finds the attempt, but does not wait for a store once `hurried` is true; trouble is a
    /// warning, and snapshots wait in the spool.
    pub(crate) async fn writer(&self, hurried: &Receiver<bool>) -> (Writer, Task, Option<Store>) {
        // Snapshots hold command lines. The task has been started by now, with the umask that we were started with.
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
        let store = Store::open(&self.location)
            .inspect_err(|error| {
                let cause = std::error::Error::source(error)
                    .map_or_else(String::new, |cause| format!(": {cause}"));
                let remedy = error
                    .remedy()
                    .map_or_else(String::new, |remedy| format!("; {remedy}"));
                warn!("Snapshots wait in the spool, because {error}{cause}{remedy}.");
            })
            .ok();
        let spool = self.spool().await;
        let attempt = match self.names.attempt {
            Some(attempt) => attempt,
            None => self.free_attempt(store.as_ref(), &spool, hurried).await,
        };
        let task = self.task(attempt);
        let place = Place {
            task: task.pathspec.clone(),
            attempt,
            node: task.node.clone(),
        };
        let focus_files = self.loaded.settings.capture.focus_files.clone();
        let open = |patience| {
            let (store, place, task) = (store.clone(), place.clone(), task.clone());
            Writer::open_within(
                patience,
                store,
                place,
                task,
                focus_files.clone(),
                spool.clone(),
            )
        };
        let writer = tokio::select! {
            biased;
            writer = open(INDEX_DEADLINE) => writer,
            () = called(hurried) => open(HURRIED_DEADLINE).await,
        };
        let retention = self.loaded.settings.store.retention;
        writer.keep_only(retention.unwrap_or_default().limits());
        (writer, task, store)
    }

    /// Returns the attempt after the last one of this node that the store or the spool knows.
    async fn free_attempt(
        &self,
        store: Option<&Store>,
        spool: &SpoolSettings,
        hurried: &Receiver<bool>,
    ) -> u32 {
        let node = self.task(0).node;
        let spooled = store::next_spooled_attempt(&spool.directory, &self.names.path, &node);
        let Some(store) = store else {
            return spooled;
        };
        let stored = tokio::select! {
            biased;
            stored = store.next_attempt(&self.names.path, &node) => stored.ok(),
            () = sleep(OPEN_DEADLINE) => None,
            () = async { called(hurried).await; sleep(HURRIED_DEADLINE).await } => None,
        };
        stored.unwrap_or(0).max(spooled)
    }
}

/// Waits until `hurried` is true.
async fn called(hurried: &Receiver<bool>) {
    let mut hurried = hurried.clone();
    if hurried.wait_for(|is_hurried| *is_hurried).await.is_err() {
        std::future::pending::<()>().await; // nobody can call any more
    }
}
