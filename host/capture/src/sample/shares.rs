//! Whose memory it is (USS and PSS), within a budget: the kernel walks every page of a process to tell, with the lock of its memory held.
//!
//! All processes are read in one round, so that their sum is of one moment; samples between two rounds have none. What a round costs
//! follows from what it walks; the next one is so much later that walking takes half a percent of one core. A process that is
//! larger than [`LARGEST`] is never walked, and a gap says so.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use model::{Gap, GapCode, ProcessSample};

use super::members::note;
use crate::gaps::GapList;
use crate::machine::Machine;
use crate::memory::{Job, MemoryReader, Piece, Task};
use crate::proc::rollup;
use crate::turns::Turns;

/// One part of so many of a core may be spent: half a percent.
const SHARE: u32 = 200;
/// What a round costs: for each process, and for each GiB in pages of 4 KiB.
const COST_OF_PROCESS: Duration = Duration::from_micros(100);
const COST_OF_GIBIBYTE: Duration = Duration::from_millis(25);
/// A process with more resident bytes is not walked: at 4 KiB a page that would take some 20 ms, in which it cannot map memory.
const LARGEST: u64 = 1 << 30;
/// So many resident bytes are walked in a round at most.
const MOST_WALKED: u64 = 4 << 30;

/// Reads shares of memory.
#[derive(Debug)]
pub(super) struct Shares {
    due: Option<Instant>,
    memory: MemoryReader,
    turns: Turns,
    /// What is said of those that are not walked, while it holds.
    left_out: Vec<Gap>,
}

/// Returns what walking the processes of `jobs` costs.
fn cost(jobs: &[Job], processes: &[ProcessSample]) -> Duration {
    let walked = jobs.iter().filter_map(|job| {
        let at = processes.binary_search_by_key(&job.id, |it| it.identity);
        processes[at.ok()?].rss_bytes
    });
    let mebibytes = u32::try_from(walked.sum::<u64>() >> 20).unwrap_or(u32::MAX);
    let processes = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
    (COST_OF_PROCESS * processes + COST_OF_GIBIBYTE * mebibytes / 1024).max(COST_OF_PROCESS)
}

impl Shares {
    pub(super) fn new(memory: MemoryReader) -> Self {
        Self {
            due: None,
            memory,
            turns: Turns::default(),
            left_out: Vec::new(),
        }
    }

    /// Puts the shares into `processes` if a round is due; else says again who was left out.
    pub(super) fn read(
        &mut self,
        machine: &Machine,
        processes: &mut [ProcessSample],
        gaps: &mut Vec<Gap>,
    ) {
        let began = Instant::now();
        if self.due.is_some_and(|due| began < due) {
            gaps.extend(self.left_out.iter().cloned());
            return;
        }
        self.left_out.clear();
        let resident: Vec<_> = processes
            .iter()
            .filter_map(|it| Some((it.identity, it.rss_bytes.filter(|&rss| rss > 0)?)))
            .collect();
        let (large, walked): (Vec<_>, Vec<_>) =
            resident.into_iter().partition(|&(_, rss)| rss > LARGEST);
        for (id, rss) in large {
            let detail = format!(
                "its {} MiB resident are over the {} MiB up to which the pages of a process are walked",
                rss >> 20,
                LARGEST >> 20
            );
            let gap = Gap::new("smaps_rollup", GapCode::Skipped);
            self.left_out.push(gap.of(id).with_detail(detail));
        }
        let chosen = self.turns.choose(&walked, MOST_WALKED);
        self.left_out.extend(chosen.later.into_values());
        gaps.extend(self.left_out.iter().cloned());
        let ids: Vec<_> = chosen.now.into_iter().collect();
        let excused = self.memory.begin(&machine.proc, &ids);
        let is_excused: BTreeSet<_> = excused.iter().map(|(id, _)| *id).collect();
        let blocked = excused.into_iter().map(|(id, why)| {
            Gap::new("smaps_rollup", GapCode::BlockedRead)
                .of(id)
                .with_detail(why)
        });
        gaps.extend(blocked);
        let jobs: Vec<Job> = ids
            .into_iter()
            .filter(|id| !is_excused.contains(id))
            .map(|id| Job {
                id,
                task: Task::Rollup,
            })
            .collect();
        self.walk(machine, &jobs, processes, gaps);
        self.due = Some(began + cost(&jobs, processes) * SHARE);
    }

    fn walk(
        &self,
        machine: &Machine,
        jobs: &[Job],
        processes: &mut [ProcessSample],
        gaps: &mut Vec<Gap>,
    ) {
        let mut take = |job: usize, piece: Piece| {
            let Piece::Rollup(content) = piece else {
                return;
            };
            let id = jobs[job].id;
            let at = processes.binary_search_by_key(&id, |it| it.identity);
            let rollup = content
                .map_err(std::io::Error::from)
                .map(|(content, _)| rollup::parse(&content));
            match (rollup, at) {
                (Ok(Some(rollup)), Ok(at)) => {
                    processes[at].pss_bytes = Some(rollup.pss_bytes);
                    processes[at].uss_bytes = Some(rollup.uss_bytes);
                }
                // It ended meanwhile: the file of who has no memory is empty.
                (Ok(_), _) => {}
                (Err(error), _) => {
                    let mut list = GapList::of(id);
                    note::<()>(machine, &mut list, id, "smaps_rollup", Err(error));
                    gaps.extend(list.finish());
                }
            }
        };
        for (job, failure) in self.memory.read(&machine.proc, &[], jobs, &mut take) {
            let gap = Gap::new("smaps_rollup", failure.code).of(jobs[job].id);
            gaps.push(gap.with_detail(failure.detail));
        }
    }

    /// Ends the helper.
    pub(super) fn close(&self) {
        self.memory.close();
    }
}
