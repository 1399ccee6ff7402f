//! The stages of a task, as several threads share them, and as a status shows them.

use monitor::{Moment, Stage, StageTotal, StageTrouble, Stages};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock::Clock;
use crate::sampling::Watch;

/// So many stages and totals are part of a status.
const SHOWN: usize = 20;

/// Stages in a status.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct StageStatus {
    /// How many have ended.
    pub(crate) ended: u64,
    /// The innermost that are open, the newest first; `workflow` where none is.
    pub(crate) label: String,
    /// How many are open.
    pub(crate) open: u64,
    /// The newest, open and ended, at most 20 of each, in the order in which they began.
    pub(crate) records: Vec<Value>,
    /// Those whose stages took longest in all, at most 20.
    pub(crate) totals: Vec<StageTotal>,
    pub(crate) trouble: StageTrouble,
}

/// The stages of a task, which the loop that samples shares.
#[derive(Clone, Debug)]
pub(crate) struct SharedStages {
    clock: Clock,
    watch: Watch,
}

impl SharedStages {
    /// Returns those of the monitor of `watch`.
    pub(crate) fn new(watch: Watch, clock: Clock) -> Self {
        Self { clock, watch }
    }

    /// Returns what `work` does with the stages, which nobody else has meanwhile.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Stages) -> T) -> T {
        work(&mut self.watch.monitor().stages)
    }

    /// Returns the present.
    pub(super) fn moment(&self) -> Moment {
        Moment {
            at: self.clock.now(),
            elapsed_seconds: self.watch.elapsed().as_secs_f64(),
        }
    }

    /// Returns what a status says of them.
    pub(super) fn status(&self) -> StageStatus {
        let elapsed = self.moment().elapsed_seconds;
        self.with(|stages| StageStatus::of(stages, elapsed))
    }
}

impl StageStatus {
    fn of(stages: &Stages, elapsed_seconds: f64) -> Self {
        let records = stages.records(elapsed_seconds);
        let (open, over): (Vec<&Stage>, Vec<&Stage>) =
            records.iter().partition(|stage| stage.ended_by.is_none());
        let newest = |list: &[&Stage]| {
            let skipped = list.len().saturating_sub(SHOWN);
            let newest = list[skipped..].iter();
            newest.map(|stage| stage.document()).collect::<Vec<Value>>()
        };
        let mut totals = stages.totals();
        totals.truncate(SHOWN);
        Self {
            ended: stages.counts().1,
            label: stages.label(),
            open: open.len() as u64,
            records: [newest(&over), newest(&open)].concat(),
            totals,
            trouble: stages.trouble,
        }
    }
}
