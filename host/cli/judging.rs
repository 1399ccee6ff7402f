//! Judging while the task runs: what is established goes into the snapshot, and to stderr. A fault of ours in it ends the
//! judging and nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use diagnose::{Recent, Tuning};
use model::{Obituary, Snapshot};
use tracing::warn;

use crate::ui;

/// The judge of one collector, unless it is off.
#[derive(Debug, Default)]
pub(crate) struct Judging(Option<Recent>);

impl Judging {
    /// Begins to judge, where there is a tuning.
    pub(crate) fn new(tuning: Option<Tuning>) -> Self {
        Self(tuning.map(Recent::new))
    }

    /// Returns whether closer snapshots than one each `interval` would establish a hang sooner.
    pub(crate) fn gains_by_closer_looks(&self, interval: Duration) -> bool {
        let patience = |recent: &Recent| recent.patience(interval);
        self.0
            .as_ref()
            .is_some_and(|it| interval * 3 > patience(it))
    }

    /// Adds what is established with `snapshot` to it, and with how processes have ended up to now; returns after which time a closer look is worth while.
    pub(crate) fn judge(&mut self, snapshot: &mut Snapshot, ends: &[Obituary]) -> Option<Duration> {
        let recent = self.0.as_mut()?;
        let Ok(news) = catch_unwind(AssertUnwindSafe(|| recent.judge(snapshot, ends))) else {
            warn!(
                "Judging failed and is switched off for this run; `taskscope why` judges what is stored."
            );
            self.0 = None;
            return None;
        };
        snapshot.findings.extend(news.findings);
        for message in &news.messages {
            ui::say(message);
        }
        news.closer
    }
}
