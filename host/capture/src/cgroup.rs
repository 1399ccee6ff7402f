//! The `cgroup` object of a snapshot: the cgroup of the task's main process, files as the kernel wrote them, and as
//! numbers together with every visible cgroup above it.

mod chain;
mod limits;
pub(crate) mod memory;
mod numbers;
mod others;
mod sampled;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::{Cgroup, CgroupLevel, Gap, GapCode, Process};

use crate::discover::Targets;
use crate::error::gap_code;
use crate::gaps::GapList;
use crate::hierarchy::Hierarchy;
use crate::machine::Machine;
use crate::proc::{Reader, text};

pub(crate) use sampled::SampledCgroup;

const PRESSURE: [&str; 3] = ["cpu", "io", "memory"];

/// Cgroups below a task's own, however odd its tree, that we look into.
const MOST_DIRECTORIES: usize = 4096;

/// Reads the cgroup of the main process of `targets`, and those of `processes` that are in others.
pub(crate) fn of_processes(
    machine: &Machine,
    targets: &Targets,
    processes: &[Process],
    reader: &mut Reader,
    gaps: &mut GapList,
) -> Cgroup {
    let mut cgroup = read(machine, &targets.root_cgroup, reader, gaps);
    let main = (&cgroup, targets.root_cgroup.as_slice());
    cgroup.others = others::read(machine, main, processes, reader, gaps);
    cgroup
}

/// Reads the cgroup of the process whose `/proc/PID/cgroup` has `lines`.
pub(crate) fn read(
    machine: &Machine,
    lines: &[String],
    reader: &mut Reader,
    gaps: &mut GapList,
) -> Cgroup {
    let chains = chain::read(machine, lines, reader, gaps);
    let mut cgroup = Cgroup::default();
    // Where the memory controller is on version 1, an empty version 2 hierarchy may be mounted beside it.
    let memory = machine.hierarchies().iter().find_map(|hierarchy| {
        is_memory_1(hierarchy)
            .then(|| hierarchy.directory(lines))
            .flatten()
    });
    let own = memory.or_else(|| unified(machine.hierarchies(), lines));
    cgroup.version = match &own {
        Some(_) if chains.iter().all(|chain| !is_memory_1(chain.hierarchy)) => 2,
        _ => 1,
    };
    cgroup.path = own.map(|path| path.display().to_string());
    if cgroup.path.is_none() {
        let detail = "no mounted hierarchy shows the cgroup of the main process";
        gaps.add(Gap::new("cgroup", GapCode::Unsupported).with_detail(detail));
    } else {
        cgroup.limits = Some(limits::tightest(&chains));
        let raw = chains
            .iter()
            .filter(|chain| chain.hierarchy.version == cgroup.version);
        for level in raw.filter_map(|chain| chain.levels.first()) {
            cgroup.files.extend(level.files.texts.clone());
        }
        let levels = chains.into_iter().flat_map(|chain| chain.levels);
        let facts = levels.map(|level| level.facts);
        cgroup.chain = facts.filter(says_anything).collect();
    }
    for name in PRESSURE {
        let path = machine.proc.join("pressure").join(name);
        let content = reader.read_path(&path).map(text::line);
        match content {
            Ok(content) => {
                cgroup.host_pressure.insert(name.to_owned(), content);
            }
            // A kernel without PSI has no such file; one started with psi=0 answers EOPNOTSUPP.
            Err(error) if gap_code(&error) == GapCode::Vanished => {
                gaps.add(Gap::new("pressure/*", GapCode::Unsupported));
            }
            Err(error) => gaps.note("pressure/*", &error),
        }
    }
    cgroup
}

/// Returns the cgroup that may be a task's own: not the root one, in the first hierarchy that has such a one.
pub(crate) fn of_task(machine: &Machine, lines: &[String]) -> Option<PathBuf> {
    let hierarchies = machine.hierarchies();
    let ours = |hierarchy: &&Hierarchy| {
        hierarchy.version == 2
            || ["memory", "pids", "cpu", "name=systemd"]
                .iter()
                .any(|name| hierarchy.has(name))
    };
    let mut directories = hierarchies.iter().filter(ours).filter_map(|hierarchy| {
        let directory = hierarchy.directory(lines)?;
        let is_root = hierarchy.path(lines) == Some("/") && is_machine_root(hierarchy, &directory);
        (!is_root).then_some(directory)
    });
    directories.next()
}

/// Returns the PIDs in the cgroup at `directory` and in those below it.
pub(crate) fn pids(directory: &Path, reader: &mut Reader) -> io::Result<Vec<i32>> {
    let mut pids = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    let mut seen = 0;
    while let Some(current) = waiting.pop() {
        seen += 1;
        let content = match reader.read_path(&current.join("cgroup.procs")) {
            Ok(content) => text::line(content),
            Err(error) if current == directory => return Err(error),
            // EOPNOTSUPP: threaded cgroups list no processes; their domain above does. Or it was removed.
            Err(_) => String::new(),
        };
        // 0 stands for a process outside our PID namespace.
        let listed = content.lines().filter_map(|line| line.trim().parse().ok());
        pids.extend(listed.filter(|&pid: &i32| pid > 0));
        if seen < MOST_DIRECTORIES {
            waiting.extend(directories_below(&current));
        }
    }
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

fn unified(hierarchies: &[Hierarchy], lines: &[String]) -> Option<PathBuf> {
    let mut unified = hierarchies.iter().filter(|one| one.version == 2);
    unified.find_map(|one| one.directory(lines))
}

fn is_memory_1(hierarchy: &Hierarchy) -> bool {
    hierarchy.version == 1 && hierarchy.has("memory")
}

fn says_anything(level: &CgroupLevel) -> bool {
    let has_any = level.cpu.is_some() || level.memory.is_some() || level.pids.is_some();
    has_any || level.io.is_some() || !level.pressure.is_empty()
}

/// Whether a path of `/` is the root of the whole machine, and not of a cgroup namespace.
fn is_machine_root(hierarchy: &Hierarchy, directory: &Path) -> bool {
    match hierarchy.version {
        2 => !directory.join("cgroup.type").exists(),
        _ => directory.join("release_agent").exists() || !directory.join("cgroup.procs").exists(),
    }
}

fn directories_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}
