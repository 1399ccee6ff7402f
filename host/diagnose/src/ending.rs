//! How processes ended, and which end the others may follow from.

use model::{Ending, Obituary, ObituarySegment, ProcessId, Timestamp};

/// Signals by which somebody else, or a pipe that was closed, ends what is well: SIGHUP, SIGINT, SIGPIPE, SIGTERM.
const ORDINARY: [i32; 4] = [1, 2, 13, 15];

/// An obituary, and where it lies.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// What it says.
    pub obituary: &'a Obituary,
    /// The record that it is in, as `obituaries/…`: stands for the snapshot in evidence.
    pub record: &'a str,
    /// Its position among `/obituaries` of that record.
    pub index: usize,
}

impl<'a> End<'a> {
    /// Returns the ends that `records` of one node tell, each with its name, in the order of the ends; those until an instant where
    /// one is given.
    pub fn in_order(
        records: impl IntoIterator<Item = (&'a str, &'a ObituarySegment)>,
        until: Option<Timestamp>,
    ) -> Vec<Self> {
        let ends = records.into_iter().flat_map(|(record, segment)| {
            let obituaries = segment.obituaries.iter().enumerate();
            obituaries.map(move |(index, obituary)| Self {
                obituary,
                record,
                index,
            })
        });
        let is_until = |end: &Self| until.is_none_or(|until| end.obituary.ended_at <= until);
        let mut ends: Vec<Self> = ends.filter(is_until).collect();
        // Two collectors, one after the other, count from 0 each.
        ends.sort_by_key(|end| (end.obituary.ended_at, end.obituary.order));
        ends
    }
}

/// Returns the end that the others may follow from; none where there is nothing to say. `ends` are in their order, `root` is the
/// main process, which ended as `main`.
pub fn first_end<'a>(ends: &[&'a Obituary], root: ProcessId, main: Ending) -> Option<&'a Obituary> {
    let find = |holds: &dyn Fn(&Obituary) -> bool| ends.iter().copied().find(|one| holds(one));
    if main == Ending::Exited(0) || is_told_to_end(main) {
        return find(&is_crash);
    }
    // Of the many small commands of a script, some fail and are meant to.
    let is_failure = |one: &Obituary| {
        let failed = is_bad(one.ending);
        failed && (is_of_rank(one) || (one.last_snapshot.is_some() && one.process != root))
    };
    find(&|one| is_crash(one) || (is_failure(one) && is_of_rank(one)))
        .or_else(|| find(&is_failure))
        .or_else(|| find(&|one| one.process == root && !one.circumstances.is_empty()))
}

/// Returns whether it is the process of a rank itself, not one of its workers.
pub fn is_of_rank(one: &Obituary) -> bool {
    one.rank.is_some() && one.role.as_deref().is_none_or(|role| role == "rank")
}

/// Whether a signal ended it by which nobody ends what is well.
fn is_crash(one: &Obituary) -> bool {
    let signal = one.ending.signal();
    signal.is_some_and(|signal| !ORDINARY.contains(&signal))
}

/// Returns whether somebody told a process to end, and it did, by the signal or as shells say it.
pub fn is_told_to_end(ending: Ending) -> bool {
    match ending {
        Ending::Killed { signal, .. } => ORDINARY.contains(&signal),
        Ending::Exited(code) => ORDINARY.contains(&(code - 128)),
        Ending::Unknown => false,
    }
}

/// Whether an end was no good one, as far as is known.
pub(crate) fn is_bad(ending: Ending) -> bool {
    !matches!(ending, Ending::Exited(0) | Ending::Unknown)
}
