//! The `cgroup` object of a snapshot: the cgroup of the task's main process, files as the kernel wrote them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::{Cgroup, Gap, GapCode};

use crate::error::gap_code;
use crate::gaps::GapList;
use crate::hierarchy::Hierarchy;
use crate::machine::Machine;
use crate::proc::{Reader, text};

const UNIFIED: [&str; 18] = [
    "memory.current",
    "memory.max",
    "memory.events",
    "memory.events.local",
    "memory.stat",
    "memory.pressure",
    "cpu.stat",
    "cpu.max",
    "cpu.pressure",
    "io.stat",
    "io.pressure",
    "pids.current",
    "pids.max",
    "pids.events",
    // Beyond schema 1.0.
    "memory.high",
    "memory.peak",
    "memory.swap.current",
    "memory.swap.max",
];

/// Controller and files of version 1.
const CONTROLLERS: [(&str, &[&str]); 3] = [
    (
        "memory",
        &[
            "memory.usage_in_bytes",
            "memory.limit_in_bytes",
            "memory.max_usage_in_bytes",
            "memory.failcnt",
            "memory.stat",
            "memory.oom_control",
        ],
    ),
    (
        "cpu",
        &["cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.stat"],
    ),
    ("pids", &["pids.current", "pids.max"]),
];

const PRESSURE: [&str; 3] = ["cpu", "io", "memory"];

/// Cgroups below a task's own, however odd its tree, that we look into.
const MOST_DIRECTORIES: usize = 4096;

/// Reads the cgroup of the process whose `/proc/PID/cgroup` has `lines`.
pub(crate) fn read(
    machine: &Machine,
    lines: &[String],
    reader: &mut Reader,
    gaps: &mut GapList,
) -> Cgroup {
    let hierarchies = machine.hierarchies();
    let of = |controller: &str| {
        let mut versioned = hierarchies.iter().filter(|one| one.version == 1);
        versioned.find(|one| one.has(controller))?.directory(lines)
    };
    let mut cgroup = Cgroup::default();
    // Where the memory controller is on version 1, an empty version 2 hierarchy may be mounted beside it.
    if let Some(memory) = of("memory") {
        cgroup.version = 1;
        for (controller, files) in CONTROLLERS {
            if let Some(directory) = of(controller) {
                read_files(reader, &directory, files, &mut cgroup.files, gaps);
            }
        }
        cgroup.path = Some(memory.display().to_string());
    } else if let Some(unified) = unified(hierarchies, lines) {
        cgroup.version = 2;
        read_files(reader, &unified, &UNIFIED, &mut cgroup.files, gaps);
        cgroup.path = Some(unified.display().to_string());
    } else {
        cgroup.version = 1;
        let detail = "no mounted hierarchy shows the cgroup of the main process";
        gaps.add(Gap::new("cgroup", GapCode::Unsupported).with_detail(detail));
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

fn read_files(
    reader: &mut Reader,
    directory: &Path,
    names: &[&str],
    files: &mut BTreeMap<String, String>,
    gaps: &mut GapList,
) {
    if !directory.is_dir() {
        gaps.add(
            Gap::new("cgroup", GapCode::Vanished).with_detail(directory.display().to_string()),
        );
        return;
    }
    for &name in names {
        let content = reader.read_path(&directory.join(name)).map(text::line);
        match content {
            Ok(content) if content.is_empty() => {}
            Ok(content) => {
                files.insert(name.to_owned(), content);
            }
            // Which files there are depends on the controllers and the kernel: absent ones are left out.
            Err(error) if gap_code(&error) == GapCode::Vanished => {}
            Err(error) => gaps.note(&format!("cgroup/{name}"), &error),
        }
    }
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
