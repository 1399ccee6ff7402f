//! The cgroups of processes that are not where the main process of the task is: a launcher that gives each worker a
//! cgroup of its own, a service that puts the job into another one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use model::{Cgroup, Gap, GapCode, OtherCgroup, Process};

use super::{chain, limits, says_anything};
use crate::gaps::GapList;
use crate::machine::Machine;
use crate::proc::Reader;

/// More different places are not read in one capture.
const MOST: usize = 32;

/// Reads the cgroups of those of `processes` that are elsewhere than the main process with these cgroups and lines.
pub(super) fn read(
    machine: &Machine,
    (main, lines): (&Cgroup, &[String]),
    processes: &[Process],
    reader: &mut Reader,
    gaps: &mut GapList,
) -> Vec<OtherCgroup> {
    let directories = |lines: &[String]| -> Vec<PathBuf> {
        let found = chain::directories(machine.hierarchies(), lines);
        found.into_iter().map(|(_, directory)| directory).collect()
    };
    let own = directories(lines);
    let mut places = BTreeMap::<Vec<PathBuf>, Vec<&Process>>::new();
    for process in processes {
        // A zombie has left its cgroups, and has none to show on version 1 but the root one.
        let is_elsewhere = process.state != 'Z' && process.cgroup != lines;
        if is_elsewhere {
            let theirs = directories(&process.cgroup);
            if !theirs.is_empty() && theirs != own {
                places.entry(theirs).or_default().push(process);
            }
        }
    }
    if places.len() > MOST {
        let detail = format!("the first {MOST} places of {} were read", places.len());
        gaps.add(Gap::new("cgroup/others", GapCode::Truncated).with_detail(detail));
    }
    let known: BTreeSet<&str> = main.chain.iter().map(|level| level.path.as_str()).collect();
    let read = places.into_values().take(MOST).map(|processes| {
        let chains = chain::read(machine, &processes[0].cgroup, reader, gaps);
        let is_seen = chains.iter().any(|chain| !chain.levels.is_empty());
        let limits = is_seen.then(|| limits::tightest(&chains));
        let levels = chains.into_iter().flat_map(|chain| chain.levels);
        let facts = levels.map(|level| level.facts);
        OtherCgroup {
            chain: facts
                .filter(|level| says_anything(level) && !known.contains(level.path.as_str()))
                .collect(),
            limits,
            processes: processes.iter().map(|process| process.identity).collect(),
        }
    });
    read.collect()
}
