//! Who is at a place, and how much of the time.

use std::collections::BTreeMap;

use model::{GapCode, Timestamp};
use serde::Serialize;

use super::Looked;
use crate::ranges::RankSet;

/// Processes without a rank that run the same program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Others {
    /// Which, ascending; those of several nodes may have the same number.
    pub pids: Vec<i32>,
    /// The script, else the program.
    pub program: String,
}

/// How much of the time threads were at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stay {
    /// The last look at which one was there.
    pub last: Timestamp,
    /// How many looks found one of the threads there.
    pub looks: usize,
    /// How many of the threads are there at the newest look.
    pub now: usize,
    /// Of so many looks at these threads.
    pub of: usize,
    /// Since when all that are there now were there at each look; absent where none is there now.
    pub since: Option<Timestamp>,
}

/// A thread at a place at one look; ordered by thread, then by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    pub(super) thread: u32,
    pub(super) look: u32,
}

#[derive(Debug)]
pub(super) struct Thread {
    /// The looks at its node that saw it.
    pub(super) looks: Vec<u32>,
    pub(super) process: u32,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) node: usize,
    pub(super) pid: i32,
    pub(super) program: String,
    pub(super) rank: Option<u64>,
    /// Why its stacks were not read at the last look.
    pub(super) unread: Option<GapCode>,
}

/// Everybody that was seen.
#[derive(Debug, Default)]
pub(super) struct People {
    /// Of each node.
    pub(super) looks: Vec<Vec<Looked>>,
    pub(super) processes: Vec<Process>,
    pub(super) threads: Vec<Thread>,
}

/// Who is at a place.
#[derive(Debug)]
pub(super) struct Who {
    pub(super) others: Vec<Others>,
    pub(super) processes: usize,
    pub(super) rank_count: usize,
    pub(super) ranks: String,
    pub(super) stay: Option<Stay>,
    pub(super) threads: usize,
}

impl People {
    /// Returns who is at `spots`, which are in order.
    pub(super) fn who(&self, spots: &[Spot]) -> Who {
        let mut processes = Vec::new();
        let mut threads = 0;
        for of_thread in spots.chunk_by(|one, other| one.thread == other.thread) {
            threads += 1;
            processes.push(self.threads[of_thread[0].thread as usize].process);
        }
        let named = self.name(processes);
        Who {
            stay: self.stay(spots),
            threads,
            ..named
        }
    }

    /// Returns who these processes are.
    pub(super) fn name(&self, mut processes: Vec<u32>) -> Who {
        processes.sort_unstable();
        processes.dedup();
        let mut ranks = Vec::new();
        let mut others: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for process in &processes {
            let process = &self.processes[*process as usize];
            match process.rank {
                Some(rank) => ranks.push(rank),
                None => others
                    .entry(&process.program)
                    .or_default()
                    .push(process.pid),
            }
        }
        ranks.sort_unstable();
        ranks.dedup();
        let others = others.into_iter().map(|(program, mut pids)| {
            pids.sort_unstable();
            Others {
                pids,
                program: program.to_owned(),
            }
        });
        Who {
            others: others.collect(),
            processes: processes.len(),
            rank_count: ranks.len(),
            ranks: ranks.into_iter().collect::<RankSet>().to_string(),
            stay: None,
            threads: 0,
        }
    }

    /// Returns how much of the time; nothing where each node was looked at once.
    fn stay(&self, spots: &[Spot]) -> Option<Stay> {
        if self.looks.iter().all(|looks| looks.len() < 2) {
            return None;
        }
        let mut last = None;
        let (mut now, mut of, mut since) = (0, 0, None);
        for of_thread in spots.chunk_by(|one, other| one.thread == other.thread) {
            let thread = &self.threads[of_thread[0].thread as usize];
            let looks = &self.looks[self.processes[thread.process as usize].node];
            of += thread.looks.len();
            let at = |look: u32| looks[look as usize].0;
            last = last.max(of_thread.last().map(|spot| at(spot.look)));
            // The newest looks at the thread, as long as they found it here.
            let here = of_thread.iter().rev().map(|spot| spot.look);
            let run = here.zip(thread.looks.iter().rev().copied());
            let begin = run.take_while(|(here, seen)| here == seen).last();
            let is_seen_now =
                thread.looks.last().map(|look| *look as usize + 1) == Some(looks.len());
            if let Some((begin, _)) = begin.filter(|_| is_seen_now) {
                now += 1;
                since = since.max(Some(at(begin)));
            }
        }
        Some(Stay {
            last: last?,
            looks: spots.len(),
            now,
            of,
            since,
        })
    }
}
