//! Which process is which rank, as one snapshot tells.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::{Process, ProcessId, Snapshot};

use crate::case::said::{notes, number};

/// Returns the rank of each process that belongs to one, its workers included: as plugins say, else by its `RANK`.
pub(crate) fn of_processes(snapshot: &Snapshot) -> HashMap<ProcessId, u64> {
    let notes = notes(std::iter::once(snapshot));
    let rank = |process: &Process| {
        let said = notes.get(&process.identity).and_then(|said| said.rank);
        said.or_else(|| number(process, "RANK"))
    };
    let processes = snapshot.processes.iter();
    processes
        .filter_map(|process| Some((process.identity, rank(process)?)))
        .collect()
}

/// Returns the ranks that a snapshot shows.
pub fn ranks_of(snapshot: &Snapshot) -> BTreeSet<u64> {
    of_processes(snapshot).into_values().collect()
}

/// Returns the process that is a rank, for each rank that `snapshot` has: not one that its parent lent the number to. Of
/// several, the oldest.
pub fn rank_processes(snapshot: &Snapshot) -> BTreeMap<u64, &Process> {
    let ranks = of_processes(snapshot);
    let by_pid: HashMap<i32, u64> = ranks
        .iter()
        .map(|(identity, rank)| (identity.pid, *rank))
        .collect();
    let mut found: BTreeMap<u64, &Process> = BTreeMap::new();
    for process in &snapshot.processes {
        let Some(&rank) = ranks.get(&process.identity) else {
            continue;
        };
        if by_pid.get(&process.ppid) == Some(&rank) {
            continue;
        }
        let known = found.entry(rank).or_insert(process);
        if process.start_time_ticks < known.start_time_ticks {
            *known = process;
        }
    }
    found
}
