//! Which snapshots of a node are worth reading to say what is wrong: the newest, those around the instant when things came
//! to a stand, and the first.

use std::collections::BTreeSet;
use std::ops::Range;

use model::{Snapshot, Timestamp};

/// How many of the newest snapshots are read: what takes longest to call a hang shows in them.
const NEWEST: usize = 18;
/// How many before the instant when things came to a stand, and how many from there on.
const AROUND: usize = 4;
/// How many of the first.
const FIRST: usize = 2;

/// Returns the places of the newest and the first among `count` snapshots, oldest first.
pub fn newest_and_first(count: usize) -> BTreeSet<usize> {
    let mut wanted: BTreeSet<usize> = (count.saturating_sub(NEWEST)..count).collect();
    wanted.extend(0..FIRST.min(count));
    wanted
}

/// Returns the places, among snapshots of these times, of those around the instant when things came to a stand, as
/// `newest` tells; nothing where that cannot be told.
pub fn around_the_stand(times: &[Timestamp], newest: &Snapshot) -> Range<usize> {
    let Some(onset) = onset(newest) else {
        return 0..0;
    };
    let at = times.partition_point(|time| *time < onset);
    at.saturating_sub(AROUND)..(at + AROUND).min(times.len())
}

/// When the last main thread that stands still came to a stand: since then nothing has changed, and just before it lies why.
fn onset(snapshot: &Snapshot) -> Option<Timestamp> {
    let threads = snapshot.processes.iter().flat_map(|process| {
        let main = process.pid;
        let threads = process.proc.threads.iter();
        threads.filter(move |thread| thread.tid == main)
    });
    threads.filter_map(|thread| thread.unchanged_since).max()
}
