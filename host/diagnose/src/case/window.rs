//! Which snapshots show whether something moves.

use std::time::Duration;

use model::{Snapshot, Trigger};

use super::{PATIENCE, Terms};

/// Snapshots of the window are at least this part of an interval apart.
pub(crate) const CLOSEST: f64 = 0.4;

/// Without the last snapshots of a task that is being ended: what it did before is the point. All, where that leaves nothing, and
/// where it went on for long.
pub(super) fn before_the_end<'a>(snapshots: &[&'a Snapshot]) -> Vec<&'a Snapshot> {
    let is_end = |snapshot: &&Snapshot| {
        matches!(
            snapshot.capture.trigger,
            Some(Trigger::Signal | Trigger::Exit)
        )
    };
    let recent = snapshots.len().saturating_sub(PATIENCE + 1);
    let first = snapshots[recent..].iter().position(is_end);
    match first.map(|first| recent + first) {
        Some(first @ 1..) => snapshots[..first].to_vec(),
        _ => snapshots.to_vec(),
    }
}

/// The newest snapshots, far enough apart, that [`PATIENCE`] intervals lie between. Where intervals are long, closer ones do:
/// so many of them make the patience of `terms`.
pub(crate) fn window(snapshots: &[&Snapshot], terms: &Terms) -> Vec<usize> {
    let newest = snapshots.len() - 1;
    let least = apart(snapshots, terms).mul_f64(CLOSEST);
    let mut window = vec![newest];
    for position in (terms.whole_from..newest).rev() {
        let last = snapshots[window[window.len() - 1]].capture.started_at;
        if last.since(snapshots[position].capture.started_at) >= least {
            window.push(position);
        }
        if window.len() > PATIENCE {
            break;
        }
    }
    window.reverse();
    window
}

/// How far apart snapshots are meant to be, as far as that counts.
fn apart(snapshots: &[&Snapshot], terms: &Terms) -> Duration {
    let interval = snapshots[snapshots.len() - 1].capture.interval_s;
    let interval = interval.filter(|it| it.is_finite() && *it > 0.0);
    let interval = Duration::try_from_secs_f64(interval.unwrap_or(0.0)).unwrap_or_default();
    let intervals = u32::try_from(PATIENCE).unwrap_or(u32::MAX);
    interval.min(terms.patience / intervals)
}

/// The time that counts as one interval; where none is told, what lies between the snapshots of the window.
pub(super) fn unit(snapshots: &[&Snapshot], window: &[usize], terms: &Terms) -> Duration {
    let at = |position: usize| snapshots[position].capture.started_at;
    let span = at(window[window.len() - 1]).since(at(window[0]));
    let between = u32::try_from(window.len() - 1).unwrap_or(u32::MAX).max(1);
    match apart(snapshots, terms) {
        Duration::ZERO => span / between,
        apart => apart,
    }
}
