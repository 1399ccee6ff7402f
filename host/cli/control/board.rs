//! What a collector says of itself: written by the loop, read by whoever asks over the socket.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{ProcessId, Task, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tracing::warn;

use super::stages::StageStatus;
use crate::clock::Clock;
use crate::ledger::Ledger;
use crate::pipeline::Kept;
use crate::schedule::Schedule;
use crate::session::Session;

/// What `taskscope ctl status --json` prints: one collector at one instant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Status {
    /// The attempt; null until the store has been asked for a free one.
    pub(crate) attempt: Option<u32>,
    /// The PID of the collector, in its own PID namespace.
    pub(crate) collector_pid: i32,
    /// The version of taskscope.
    pub(crate) collector_version: String,
    /// What came over the socket.
    pub(crate) control: Tally,
    /// The time between two snapshots, seconds.
    pub(crate) interval_s: f64,
    /// Where the interval comes from.
    pub(crate) interval_source: IntervalSource,
    /// The node identity.
    pub(crate) node: String,
    /// Since when nothing is looked at; null where it is not paused.
    pub(crate) paused_since: Option<Timestamp>,
    /// The main process of the task.
    pub(crate) root: ProcessId,
    pub(crate) snapshots: Snapshots,
    /// The stages of the task.
    pub(crate) stages: StageStatus,
    /// When the collector began.
    pub(crate) started_at: Timestamp,
    /// Where snapshots go.
    pub(crate) store: String,
    /// The task's path.
    pub(crate) task: String,
}

/// The snapshots of a collector.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Snapshots {
    /// How many requests over the socket are answered by a snapshot that began after them, or failed.
    pub(crate) answered: u64,
    /// When the next one is due; null while it is paused.
    pub(crate) due_at: Option<Timestamp>,
    /// Why the latest attempt failed; null where it did not.
    pub(crate) failed: Option<String>,
    /// The latest that was taken.
    pub(crate) last_id: Option<String>,
    /// How many were asked for over the socket.
    pub(crate) requested: u64,
    /// How many were taken.
    pub(crate) taken: u64,
}

/// What came over the socket.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// Connections that are open.
    pub(crate) clients: u64,
    /// Why the latest line was refused.
    pub(crate) last_refusal: Option<String>,
    /// Lines that were understood.
    pub(crate) lines: u64,
    /// Connections that were refused: of another user, or too many at once.
    pub(crate) refused_clients: u64,
    /// Lines that were not understood or not allowed.
    pub(crate) refused_lines: u64,
}

/// Where the interval comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IntervalSource {
    /// `taskscope ctl interval`.
    Asked,
    /// The default interval, stretched where the budget needs it.
    Budget,
    /// An option or the settings.
    Settings,
}

/// One status that several threads share.
#[derive(Clone, Debug)]
pub(crate) struct Board(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Requests that the turn under way answers.
    answering: u64,
    clock: Clock,
    due: Option<Instant>,
    is_asked_for: bool,
    status: Status,
}

impl Board {
    /// Begins with what is known before anything was looked at.
    pub(crate) fn new(session: &Session, root: ProcessId, clock: Clock) -> Self {
        let source = source(session.pace.budget.is_some(), false);
        let status = Status {
            attempt: session.names.attempt,
            collector_pid: i32::try_from(std::process::id()).expect("a PID fits"),
            collector_version: env!("CARGO_PKG_VERSION").to_owned(),
            control: Tally::default(),
            interval_s: session.pace.interval.as_secs_f64(),
            interval_source: source,
            node: session.names.node.clone(),
            paused_since: None,
            root,
            snapshots: Snapshots::default(),
            stages: StageStatus::default(),
            started_at: clock.now(),
            store: session.location.to_string(),
            task: session.names.path.to_string(),
        };
        Self(Arc::new(Mutex::new(State {
            answering: 0,
            clock,
            due: None,
            is_asked_for: false,
            status,
        })))
    }

    /// Returns the status of this instant; `tally` is what came over the socket, `stages` what it said of stages.
    pub(crate) fn status(&self, tally: &Tally, stages: StageStatus) -> Status {
        let state = self.lock();
        let mut status = state.status.clone();
        status.control.clone_from(tally);
        status.stages = stages;
        let due = state.due.filter(|_| status.paused_since.is_none());
        status.snapshots.due_at = due.map(|due| {
            let left = due.saturating_duration_since(Instant::now());
            state.clock.now().after(left)
        });
        status
    }

    /// Counts a request for a snapshot; returns its number. Call it before the request is passed on.
    pub(crate) fn ask(&self) -> u64 {
        let mut state = self.lock();
        state.status.snapshots.requested += 1;
        state.status.snapshots.requested
    }

    /// The store is open.
    pub(crate) fn opened(&self, task: &Task) {
        self.lock().status.attempt = Some(task.attempt);
    }

    /// A turn begins: it answers all that was asked for so far.
    pub(crate) fn begin(&self) {
        let mut state = self.lock();
        state.answering = state.status.snapshots.requested;
    }

    /// The turn has ended.
    pub(crate) fn end(&self, done: Result<&Kept, &anyhow::Error>) {
        let mut state = self.lock();
        let answering = state.answering;
        let snapshots = &mut state.status.snapshots;
        snapshots.answered = answering;
        match done {
            Ok(kept) => {
                snapshots.taken += 1;
                snapshots.last_id = Some(kept.id.to_string());
                snapshots.failed = None;
            }
            Err(error) => snapshots.failed = Some(format!("{error:#}")),
        }
    }

    /// Whether the interval is one that was asked for over the socket.
    pub(crate) fn interval_is_asked_for(&self, is_asked_for: bool) {
        self.lock().is_asked_for = is_asked_for;
    }

    /// When the next turn is due.
    pub(crate) fn scheduled(&self, schedule: &Schedule, ledger: &Ledger) {
        let mut state = self.lock();
        state.due = Some(schedule.due());
        state.status.interval_s = ledger.interval().as_secs_f64();
        state.status.interval_source = source(ledger.has_budget(), state.is_asked_for);
    }

    /// A pause begins or ends.
    pub(crate) fn paused(&self, is_paused: bool) {
        let mut state = self.lock();
        state.status.paused_since = is_paused.then(|| state.clock.now());
    }

    /// Says at the end that nothing was looked at since a pause: no later snapshot can.
    pub(crate) fn note_pause(&self) {
        let state = self.lock();
        if let Some(since) = state.status.paused_since {
            let length: Duration = state.clock.now().since(since);
            warn!(
                "Nothing was looked at in the last {:.1} s: `taskscope ctl pause` was in force.",
                length.as_secs_f64()
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn source(has_budget: bool, is_asked_for: bool) -> IntervalSource {
    match (is_asked_for, has_budget) {
        (true, _) => IntervalSource::Asked,
        (false, true) => IntervalSource::Budget,
        (false, false) => IntervalSource::Settings,
    }
}
