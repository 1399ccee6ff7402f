//! What is shown, and what is kept of it between two requests.

use std::sync::Arc;

use model::TaskPath;
use store::Store;
use tokio::sync::Semaphore;

use crate::curves::AllCurves;
use crate::ends::Ends;
use crate::events::LISTENERS;
use crate::judged::Judged;
use crate::query::Query;
use crate::runs::Runs;
use crate::shelf::Shelf;

/// Which run is shown where a request names none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The attempt; the newest where it is absent.
    pub attempt: Option<u32>,
    /// The node whose curves are shown first; the first one where it is absent.
    pub node: Option<String>,
    /// The task; the newest in the store where it is absent.
    pub task: Option<TaskPath>,
}

/// A store as a page. Reads only, and holds a bounded part of it in memory.
#[derive(Debug)]
pub struct View {
    pub(crate) curves: AllCurves,
    pub(crate) ends: Arc<Ends>,
    pub(crate) judged: Judged,
    pub(crate) listeners: Arc<Semaphore>,
    pub(crate) reads_ahead: bool,
    pub(crate) runs: Runs,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) shown: Shown,
    pub(crate) store: Store,
}

impl View {
    /// Returns the page of `store`, which keeps decoded snapshots in about `memory_bytes` of memory.
    pub fn new(store: Store, shown: Shown, memory_bytes: u64) -> Self {
        Self {
            curves: AllCurves::default(),
            ends: Arc::new(Ends::new(store.clone())),
            judged: Judged::default(),
            listeners: Arc::new(Semaphore::new(LISTENERS)),
            reads_ahead: false,
            runs: Runs::default(),
            shelf: Arc::new(Shelf::new(store.clone(), memory_bytes)),
            shown,
            store,
        }
    }

    /// Has it read what a browser asks for first as soon as it is served, before anybody has asked.
    #[must_use]
    pub fn reading_ahead(self) -> Self {
        Self {
            reads_ahead: true,
            ..self
        }
    }

    /// Reads what a browser asks for first, so that it is at hand then. Troubles are for who asks.
    pub(crate) async fn read_ahead(&self) {
        let query = Query::default();
        let Ok(run) = self.run_of(&query).await else {
            return;
        };
        if let Ok(moment) = Self::moment(&run, query.at, None) {
            self.judge(&moment).await;
        }
        _ = self.timeline(&run, &query).await;
        _ = self.matrix(&run, &query).await;
    }
}
