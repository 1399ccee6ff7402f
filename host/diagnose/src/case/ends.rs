//! Whether the task is over, and what of a node counts then.

use std::time::Duration;

use model::{Ending, Snapshot, Timestamp, Trigger};

use super::History;
use super::window::before_the_end;
use crate::ending::{End, is_told_to_end};

/// What of a node's history is to be judged.
pub(super) struct Over<'a> {
    pub(super) snapshots: Vec<&'a Snapshot>,
    pub(super) ends: Vec<End<'a>>,
    /// How the main process ended by itself.
    pub(super) main: Option<Ending>,
    /// The same where somebody told it to.
    pub(super) told_to_end: Option<End<'a>>,
}

/// Returns the snapshot that an answer is about: the newest, or of a task that was told to end the last before that.
pub fn stand<'a>(history: &History<'a>) -> Option<&'a Snapshot> {
    let is_there = !history.snapshots.is_empty();
    is_there.then(|| over(history).snapshots.last().copied())?
}

/// Returns whether the main process of the task is known to have ended, by itself or because it was told to.
pub fn is_over(history: &History<'_>) -> bool {
    let newest = history.snapshots.last();
    let root = newest
        .and_then(|newest| newest.scope.as_ref())
        .map(|scope| scope.root);
    let mut ends = history.ends.iter();
    ends.any(|end| Some(end.obituary.process) == root)
}

/// Who is told to end does so within this time, as launchers, batch systems and containers give it, or goes on.
const GRACE: Duration = Duration::from_mins(1);

/// Returns what counts: of a task that was told to end, nothing from then on. There is a snapshot.
pub(super) fn over<'a>(history: &History<'a>) -> Over<'a> {
    let all = &history.snapshots;
    let newest = all[all.len() - 1];
    let ends = history.ends.iter().copied();
    let root = newest.scope.as_ref().map(|scope| scope.root);
    let end = ends.clone().find(|end| Some(end.obituary.process) == root);
    let main = end.map(|end| end.obituary.ending);
    let snapshots = before_the_signal(all, end.map(|end| end.obituary.ended_at))
        .unwrap_or_else(|| before_the_end(all));
    let was_told = snapshots.len() < all.len() || main.is_some_and(is_told_to_end);
    if !was_told {
        return Over {
            ends: ends.collect(),
            snapshots,
            main,
            told_to_end: None,
        };
    }
    let until = snapshots[snapshots.len() - 1].capture.completed_at;
    Over {
        ends: ends.filter(|end| end.obituary.ended_at <= until).collect(),
        snapshots,
        main: None,
        told_to_end: end,
    }
}

/// What was seen before somebody told the task to end, where its main process did so soon after, with whatever status, and whoever
/// outlived it. Nothing where that is not known, or all was seen after it.
fn before_the_signal<'a>(
    snapshots: &[&'a Snapshot],
    ended_at: Option<Timestamp>,
) -> Option<Vec<&'a Snapshot>> {
    let ended_at = ended_at?;
    let tells = |snapshot: &&Snapshot| {
        let capture = &snapshot.capture;
        let is_told = capture.trigger == Some(Trigger::Signal) && capture.started_at <= ended_at;
        is_told && ended_at.since(capture.started_at) <= GRACE
    };
    let first = snapshots.iter().position(tells).filter(|it| *it > 0)?;
    Some(snapshots[..first].to_vec())
}
