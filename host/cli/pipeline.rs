//! The line, once: look, ask the plugins, judge, keep, give to the sinks. Only here do two stages meet in one function.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use capture::{Machine, Moment, Options, Scope};
use model::{Gap, GapCode, Snapshot, SnapshotId, Spending, Trigger};
use plugin::{Plugins, Sinks};
use store::{Fate, Writer};

use crate::clock::Clock;
use crate::ends::Ends;
use crate::growth::DiskWatch;
use crate::judging::Judging;
use crate::sampling::Watch;

/// How long a snapshot's write waits for plugins that are still being compiled.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Everything that one turn of the loop needs.
pub(crate) struct Line {
    /// What looks; shared with the thread that does the blocking reads.
    pub(crate) eye: Arc<Mutex<Eye>>,
    pub(crate) plugins: Plugins,
    pub(crate) sinks: Sinks,
    pub(crate) writer: Writer,
    pub(crate) task: model::Task,
    /// The samples beside the snapshots; none for a single snapshot.
    pub(crate) watch: Option<Watch>,
    pub(crate) clock: Clock,
    /// What snapshots tell obituaries; absent where one is taken alone.
    pub(crate) ends: Option<Ends>,
    /// What judges them while the task runs.
    pub(crate) judging: Judging,
    /// Whether the disk of the store will do; none where that is nobody's question.
    pub(crate) disk: Option<DiskWatch>,
}

/// The two stages that read the machine.
pub(crate) struct Eye {
    pub(crate) machine: Arc<Machine>,
    pub(crate) scope: Scope,
    pub(crate) options: Options,
}

/// Why and how often a turn is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cause {
    pub(crate) trigger: Trigger,
    pub(crate) interval: Option<Duration>,
    pub(crate) missed_cycles: u64,
    /// How long nothing was looked at before it, because somebody asked for a pause.
    pub(crate) paused: Option<Duration>,
    /// What has been spent before it, and how much is looked at; none for a single snapshot.
    pub(crate) spending: Option<Spending>,
}

/// A snapshot that was kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) id: SnapshotId,
    /// Its size as compressed for the store; nothing where it is lost.
    pub(crate) written_bytes: Option<u64>,
    /// A closer look is worth while after this time.
    pub(crate) closer: Option<Duration>,
}

impl Line {
    /// One turn of the loop: look, ask the plugins, judge, keep, give to the sinks.
    pub(crate) async fn turn(&mut self, cause: Cause) -> anyhow::Result<Kept> {
        let snapshot = look(&self.eye, cause, self.clock).await?;
        self.keep(snapshot).await
    }

    /// The second half of a turn, for a snapshot that was taken before the store was open.
    pub(crate) async fn keep(&mut self, mut snapshot: Snapshot) -> anyhow::Result<Kept> {
        if let Some(watch) = &self.watch {
            watch.note(&snapshot);
        }
        snapshot.number(self.task.clone(), self.writer.next_sequence());
        let mut snapshot = self.plugins.enrich(snapshot, PATIENCE).await;
        snapshot.plugins.extend(self.sinks.outcomes());
        let mut ended = Vec::new();
        if let Some(ends) = &self.ends {
            ends.seen(&snapshot);
            ended = ends.newest();
        }
        let closer = self.judging.judge(&mut snapshot, &ended);
        let written = self.writer.write(&snapshot, self.clock.now()).await;
        let disk = self.disk.as_mut();
        if let Some(words) = disk.and_then(|disk| disk.look(&snapshot, written.size_bytes)) {
            tracing::warn!("{words}.");
        }
        let id = snapshot.capture.id;
        self.sinks.offer(snapshot);
        Ok(Kept {
            id,
            written_bytes: (written.fate != Fate::Lost).then_some(written.size_bytes),
            closer,
        })
    }
}

/// Discovers and captures on a thread of its own, because both block.
pub(crate) async fn look(
    eye: &Arc<Mutex<Eye>>,
    cause: Cause,
    clock: Clock,
) -> anyhow::Result<Snapshot> {
    let eye = Arc::clone(eye);
    let read = move || {
        eye.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .look(cause, clock)
    };
    let snapshot = tokio::task::spawn_blocking(read)
        .await
        .context("the capture stopped half-way")?;
    Ok(snapshot?)
}

impl Eye {
    /// Discovers and captures. The sequence number is 0 until [`Snapshot::number`] gives the right one.
    pub(crate) fn look(
        &mut self,
        cause: Cause,
        clock: Clock,
    ) -> Result<Snapshot, capture::CaptureError> {
        let now = clock.now();
        let targets = capture::discover(&self.machine, &mut self.scope)?;
        let moment = Moment {
            sequence: 0,
            trigger: cause.trigger,
            detail: cause.spending.map(|it| it.detail).unwrap_or_default(),
            now,
            interval: cause.interval,
            missed_cycles: cause.interval.map(|_| cause.missed_cycles),
        };
        let mut snapshot = capture::capture(&self.machine, &self.options, &targets, &moment);
        snapshot.capture.spending = cause.spending;
        if let Ok(count @ 1..) = u32::try_from(cause.missed_cycles) {
            let detail = "earlier cycles were still at work when these were due";
            snapshot.gaps.push(Gap {
                count,
                ..Gap::new("cycles", GapCode::Skipped).with_detail(detail)
            });
        }
        if let Some(paused) = cause.paused {
            let detail = format!(
                "paused by `taskscope ctl pause` for {:.3} s",
                paused.as_secs_f64()
            );
            snapshot
                .gaps
                .push(Gap::new("cycles", GapCode::Skipped).with_detail(detail));
        }
        Ok(snapshot)
    }
}
