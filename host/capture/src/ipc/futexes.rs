//! The futexes that threads of the task wait for.

use std::collections::{BTreeMap, BTreeSet};

use model::{Futex, Gap, GapCode, Process, ProcessId};

use super::futex::{self, Wait};
use super::namespace;
use super::survey::Survey;
use crate::gaps::GapList;
use crate::machine::Machine;

/// More words than this are not read in one capture.
const LIMIT: usize = 512;

/// By process and address: how it is waited for, and by which threads.
pub(super) type Waits = BTreeMap<(ProcessId, u64), (Wait, Vec<i32>)>;

/// Returns what the threads of `processes` wait for.
pub(super) fn waits(processes: &[Process], gaps: &mut GapList) -> Waits {
    let mut waits = Waits::new();
    let mut beyond = 0;
    for process in processes {
        for thread in &process.proc.threads {
            if let Some(wait) = futex::wait_of(thread) {
                beyond += u32::from(!add(&mut waits, process.identity, wait, thread.tid));
            }
        }
    }
    note(beyond, gaps);
    waits
}

/// Adds those that threads wait for several of at once, which their memory named.
pub(super) fn add_vectors(waits: &mut Waits, survey: &mut Survey, gaps: &mut GapList) {
    let mut beyond = 0;
    for ((id, tid), futexes) in std::mem::take(&mut survey.vectors) {
        for (wait, words) in futexes {
            if !add(waits, id, wait, tid) {
                beyond += 1;
            } else if let Some(words) = words {
                survey.words.entry((id, wait.address)).or_insert(words);
            }
        }
    }
    note(beyond, gaps);
}

/// Whether there was room.
fn add(waits: &mut Waits, id: ProcessId, wait: Wait, tid: i32) -> bool {
    let key = (id, wait.address);
    let has_room = waits.len() < LIMIT || waits.contains_key(&key);
    if has_room {
        let (_, waiters) = waits.entry(key).or_insert((wait, Vec::new()));
        if let Err(place) = waiters.binary_search(&tid) {
            waiters.insert(place, tid);
        }
    }
    has_room
}

fn note(beyond: u32, gaps: &mut GapList) {
    if beyond > 0 {
        let detail = format!("the first {LIMIT} futexes are listed");
        let mut gap = Gap::new("ipc/futex", GapCode::Truncated).with_detail(detail);
        gap.count = beyond;
        gaps.add(gap);
    }
}

/// Returns the futexes with their words and, where that can be known, their owners.
pub(super) fn read(
    machine: &Machine,
    processes: &[Process],
    waits: &Waits,
    survey: &Survey,
) -> Vec<Futex> {
    let threads: BTreeMap<ProcessId, BTreeSet<i32>> = processes
        .iter()
        .map(|process| {
            let threads = process.proc.threads.iter().map(|thread| thread.tid);
            (process.identity, threads.collect())
        })
        .collect();
    let all: BTreeSet<i32> = threads.values().flatten().copied().collect();
    let futexes = waits.iter().map(|((id, address), (wait, waiters))| {
        let words = survey.words.get(&(*id, *address)).copied();
        let owner = words
            .and_then(|words| futex::owner(wait, words, &threads[id], &all))
            // A TID in its memory is one of its own PID namespace.
            .filter(|_| namespace::is_ours(machine, id.pid, "pid"));
        Futex {
            address: format!("{address:#x}"),
            expected: wait.expected,
            identity: *id,
            operation: wait.operation.to_owned(),
            owner_source: owner.map(|(_, source)| source),
            owner_tid: owner.map(|(tid, _)| tid),
            private: wait.private,
            value: words.map(|words| words.value),
            waiters: waiters.clone(),
        }
    });
    futexes.collect()
}
