//! The futexes that threads of the task wait for.

use std::collections::{BTreeMap, BTreeSet};

use model::{Futex, Gap, GapCode, Process, ProcessId};

use super::futex::{self, Wait};
use super::namespace;
use super::survey::Survey;
use crate::gaps::GapList;
use crate::machine::Machine;

/// More words than this are not read in one capture: each is a call, and some 200 bytes of text.
const LIMIT: usize = 8192;

/// By process and address: how it is waited for, and by which threads.
pub(super) type Waits = BTreeMap<(ProcessId, u64), (Wait, Vec<i32>)>;

/// Returns what the threads of `processes` wait for.
pub(super) fn waits(processes: &[Process], gaps: &mut GapList) -> Waits {
    let mut waits = Waits::new();
    let mut beyond = 0;
    for process in processes {
        for thread in &process.proc.threads {
            let wait = thread.syscall.as_deref().and_then(futex::wait_of);
            let Some(wait) = wait else { continue };
            let key = (process.identity, wait.address);
            if waits.len() >= LIMIT && !waits.contains_key(&key) {
                beyond += 1;
                continue;
            }
            let (_, waiters) = waits.entry(key).or_insert((wait, Vec::new()));
            waiters.push(thread.tid);
        }
    }
    if beyond > 0 {
        let detail = format!("the first {LIMIT} futexes are listed");
        let mut gap = Gap::new("ipc/futex", GapCode::Truncated).with_detail(detail);
        gap.count = beyond;
        gaps.add(gap);
    }
    waits
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
