//! Whether the task is over, and what of a node counts then.

use model::{Ending, Snapshot};

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

/// Returns what counts: of a task that was told to end, nothing from then on. There is a snapshot.
pub(super) fn over<'a>(history: &History<'a>) -> Over<'a> {
    let all = &history.snapshots;
    let newest = all[all.len() - 1];
    let ends = history.ends.iter().copied();
    let root = newest.scope.as_ref().map(|scope| scope.root);
    let end = ends.clone().find(|end| Some(end.obituary.process) == root);
    let main = end.map(|end| end.obituary.ending);
    let snapshots = before_the_end(all);
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
