//! The stages of a task, as several threads share them, and as a status shows them.

use model::Ending;
use monitor::{End, Moment, Owner, Stage, StageTotal, StageTrouble, Stages, path_text};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock::Clock;
use crate::sampling::Watch;

/// A line is said of the end of stages that took so long, seconds: nobody reads a thousand lines a second.
const TOLD_SECONDS: f64 = 1.0;
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

/// The stages of a task: the monitor has them, into which the samples are folded.
#[derive(Clone)]
pub(crate) struct SharedStages {
    clock: Clock,
    watch: Watch,
}

impl std::fmt::Debug for SharedStages {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SharedStages")
            .finish_non_exhaustive()
    }
}

impl SharedStages {
    /// Returns the stages that the samples of `watch` are folded into.
    pub(crate) fn new(watch: Watch, clock: Clock) -> Self {
        Self { clock, watch }
    }

    /// Returns what `work` does with the stages, which nobody else has meanwhile.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Stages) -> T) -> T {
        work(&mut self.watch.monitor().stages)
    }

    /// Ends a stage; of one that took a while a line is said.
    pub(super) fn end(&self, owner: Owner, end: &End) {
        let now = self.moment();
        let words = self.with(|stages| {
            let stage = stages.end(owner, end, now)?;
            (stage.wall_seconds >= TOLD_SECONDS).then(|| words(stage))
        });
        if let Some(words) = words {
            self.watch.stage_ended(words);
        }
    }

    /// Ends the stages of a process; of those that were the process, how it ended, a line is said.
    pub(super) fn process_ended(&self, owner: Owner, ending: Ending) {
        let outcome = (ending != Ending::Exited(0)).then(|| ending.to_string());
        let now = self.moment();
        let words = self.with(|stages| {
            let ended = stages.process_ended(owner, outcome.as_deref(), now);
            let last = stages.newest_ended().filter(|_| ended > 0)?;
            (last.wall_seconds >= TOLD_SECONDS).then(|| words(last))
        });
        if let Some(words) = words {
            self.watch.stage_ended(words);
        }
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
            newest
                .filter_map(|stage| serde_json::to_value(stage).ok())
                .collect::<Vec<Value>>()
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

/// That a stage ended, for the live line.
fn words(stage: &Stage) -> String {
    let (path, seconds) = (path_text(&stage.path), stage.wall_seconds);
    match &stage.error {
        Some(error) => format!("failed {path} ({error}, {seconds:.1} s)"),
        None => format!("completed {path} ({seconds:.1} s)"),
    }
}
