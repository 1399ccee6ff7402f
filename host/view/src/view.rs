//! What is shown, and what is kept of it between two requests.

use std::sync::Arc;
use std::time::Duration;

use model::TaskPath;
use store::Store;
use tokio::sync::Semaphore;

use crate::answer::Trouble;
use crate::curves::AllCurves;
use crate::ends::Ends;
use crate::events::LISTENERS;
use crate::judged::Judged;
use crate::query::Query;
use crate::runs::Runs;
use crate::shelf::Shelf;
use crate::work::Work;

/// How often it is read on ahead: of a run of a thousand nodes it is not all read before anybody asks.
const TURNS: usize = 8;

/// How long after a page was asked for it is looked whether there is more: a browser that paints it has the processor until then.
const LATER: Duration = Duration::from_millis(300);

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
    pub(crate) work: Work,
}

impl View {
    /// Returns the page of `store`, which keeps decoded snapshots in about `memory_bytes` of memory, and does so many things at
    /// a time that keep a processor busy.
    pub fn new(store: Store, shown: Shown, memory_bytes: u64, at_a_time: usize) -> Self {
        let work = Work::new(at_a_time);
        Self {
            curves: AllCurves::default(),
            ends: Arc::new(Ends::new(store.clone())),
            judged: Judged::default(),
            listeners: Arc::new(Semaphore::new(LISTENERS)),
            reads_ahead: false,
            runs: Runs::default(),
            shelf: Arc::new(Shelf::new(store.clone(), memory_bytes, work.clone())),
            shown,
            store,
            work,
        }
    }

    /// Draws what takes a processor's time, when its turn comes.
    pub(crate) async fn drawn<T: Send + 'static>(
        &self,
        is_large: bool,
        draw: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Trouble> {
        let drawn = self.work.done(is_large, draw).await;
        drawn.map_err(|words| Trouble::unavailable(format!("drawing it failed: {words}")))
    }

    /// Has it read what a browser asks for first as soon as it is served, before anybody has asked.
    #[must_use]
    pub fn reading_ahead(self) -> Self {
        Self {
            reads_ahead: true,
            ..self
        }
    }

    /// Looks a moment later at what a page was made of, so that the next one has what came since, also where no script asks for it.
    pub(crate) fn look_later(self: Arc<Self>, query: Query) {
        tokio::spawn(async move {
            tokio::time::sleep(LATER).await;
            // Troubles are for who asks.
            if let Ok(run) = self.run_of(&query).await
                && let Ok(moment) = Self::moment(&run, query.at, None)
            {
                self.judge(&moment).await;
            }
        });
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
        for _ in 0..TURNS {
            let time = self.timeline(&run, &query).await;
            let ranks = self.matrix(&run, &query).await;
            if time.is_ok_and(|it| it.missing == 0) && ranks.is_ok_and(|it| it.missing == 0) {
                return;
            }
        }
    }
}
