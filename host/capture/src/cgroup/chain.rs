//! The cgroup of the task in each hierarchy, and every visible one above it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use model::{CgroupLevel, Gap, GapCode};

use super::numbers::{self, Files};
use crate::error::gap_code;
use crate::gaps::GapList;
use crate::hierarchy::Hierarchy;
use crate::machine::Machine;
use crate::proc::{Reader, text};

/// Version 2, of the task's own cgroup.
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

/// Version 2, of a cgroup above it. To read `memory.stat` or `cpu.stat` there the kernel would add up all of its
/// siblings, which are no business of ours.
const UNIFIED_ABOVE: [&str; 14] = [
    "memory.current",
    "memory.max",
    "memory.events",
    "memory.high",
    "memory.peak",
    "memory.pressure",
    "memory.swap.current",
    "memory.swap.max",
    "cpu.max",
    "cpu.pressure",
    "io.pressure",
    "pids.current",
    "pids.max",
    "pids.events",
];

/// Controller, its files in the task's own cgroup, and those in the cgroups above it; version 1.
const CONTROLLERS: [(&str, &[&str], &[&str]); 4] = [
    (
        "memory",
        &[
            "memory.usage_in_bytes",
            "memory.limit_in_bytes",
            "memory.max_usage_in_bytes",
            "memory.failcnt",
            "memory.stat",
            "memory.oom_control",
            // Beyond schema 1.0.
            "memory.kmem.usage_in_bytes",
            "memory.memsw.limit_in_bytes",
        ],
        &[
            "memory.usage_in_bytes",
            "memory.limit_in_bytes",
            "memory.max_usage_in_bytes",
            "memory.failcnt",
            "memory.oom_control",
        ],
    ),
    (
        "cpu",
        &[
            "cpu.cfs_quota_us",
            "cpu.cfs_period_us",
            "cpu.stat",
            "cpuacct.usage",
        ],
        &["cpu.cfs_quota_us", "cpu.cfs_period_us"],
    ),
    (
        "pids",
        &["pids.current", "pids.max", "pids.events"],
        &["pids.current", "pids.max", "pids.events"],
    ),
    ("blkio", &["blkio.throttle.io_service_bytes_recursive"], &[]),
];

/// Where the files are that say how much of a quota was used.
const QUOTA: [&str; 2] = ["cpu.max", "cpu.cfs_quota_us"];

/// No real tree is as deep.
const DEEPEST: usize = 64;

/// The chain in one hierarchy, the task's own cgroup first.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    pub(super) hierarchy: &'a Hierarchy,
    /// Whether the last level is the root cgroup of the machine.
    pub(super) is_whole: bool,
    pub(super) levels: Vec<Level>,
}

#[derive(Debug)]
pub(super) struct Level {
    pub(super) facts: CgroupLevel,
    pub(super) files: Files,
}

impl Chain<'_> {
    /// Whether `controller` is in force in this hierarchy; which ones are in force on version 2 its files say.
    pub(super) fn has(&self, controller: &str) -> bool {
        self.hierarchy.version == 2 || self.hierarchy.has(controller)
    }
}

/// Reads every chain of the process whose `/proc/PID/cgroup` has `lines`.
pub(super) fn read<'a>(
    machine: &'a Machine,
    lines: &[String],
    reader: &mut Reader,
    gaps: &mut GapList,
) -> Vec<Chain<'a>> {
    let found = directories(machine.hierarchies(), lines);
    let chains = found.into_iter().map(|(hierarchy, directory)| {
        let directories = upwards(hierarchy, &directory);
        let top = directories.last().unwrap_or(&directory);
        let is_whole = hierarchy.part == "/" && super::is_machine_root(hierarchy, top);
        let mut levels = Vec::new();
        for (height, directory) in directories.iter().enumerate() {
            let is_root = is_whole && directory == top;
            let Some(level) = level(hierarchy, directory, height, is_root, reader, gaps) else {
                // It was removed, and what is above it is no longer the task's.
                break;
            };
            levels.push(level);
        }
        Chain {
            hierarchy,
            is_whole,
            levels,
        }
    });
    chains.collect()
}

/// Returns each hierarchy that matters, once, with the directory of the process in it: version 1 first.
pub(super) fn directories<'a>(
    hierarchies: &'a [Hierarchy],
    lines: &[String],
) -> Vec<(&'a Hierarchy, PathBuf)> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let first = |is_it: &dyn Fn(&&Hierarchy) -> bool| {
        let mut these = hierarchies.iter().filter(is_it);
        these.find_map(|one| Some((one, one.directory(lines)?)))
    };
    for (controller, ..) in CONTROLLERS {
        found.extend(first(&|one| one.version == 1 && one.has(controller)));
    }
    found.extend(first(&|one| one.version == 2));
    found.retain(|(hierarchy, _)| seen.insert(&hierarchy.mount_point));
    found
}

pub(super) fn upwards(hierarchy: &Hierarchy, directory: &Path) -> Vec<PathBuf> {
    // Without the slash that the path of a root cgroup ends with.
    let directory: PathBuf = directory.components().collect();
    let above = directory
        .ancestors()
        .take_while(|above| above.starts_with(&hierarchy.mount_point));
    above.take(DEEPEST).map(Path::to_owned).collect()
}

fn level(
    hierarchy: &Hierarchy,
    directory: &Path,
    height: usize,
    is_root: bool,
    reader: &mut Reader,
    gaps: &mut GapList,
) -> Option<Level> {
    if !directory.is_dir() {
        let gap = Gap::new("cgroup", GapCode::Vanished);
        gaps.add(gap.with_detail(directory.display().to_string()));
        return None;
    }
    let mut files = Files {
        version: hierarchy.version,
        ..Files::default()
    };
    for name in names(hierarchy, height) {
        if !(is_root && height > 0 && name.ends_with(".pressure")) {
            file(&mut files, reader, directory, name, gaps);
        }
    }
    let is_limited = |name: &&str| {
        let text = files.texts.get(*name);
        text.is_some_and(|text| !text.starts_with("max") && text != "-1")
    };
    if height > 0 && QUOTA.iter().any(is_limited) {
        file(&mut files, reader, directory, "cpu.stat", gaps);
    }
    let of = |controller: &str| hierarchy.version == 2 || hierarchy.has(controller);
    let facts = CgroupLevel {
        cpu: of("cpu").then(|| numbers::cpu(&files)).flatten(),
        hierarchy: match hierarchy.version {
            2 => "unified".to_owned(),
            _ => named(hierarchy),
        },
        io: numbers::io(&files),
        memory: of("memory").then(|| numbers::memory(&files)).flatten(),
        path: directory.display().to_string(),
        pids: of("pids").then(|| numbers::pids(&files)).flatten(),
        // That of the root cgroup is the machine's, which is kept elsewhere.
        pressure: if is_root {
            BTreeMap::new()
        } else {
            numbers::pressures(&files)
        },
    };
    Some(Level { facts, files })
}

fn names(hierarchy: &Hierarchy, height: usize) -> Vec<&'static str> {
    match (hierarchy.version, height) {
        (2, 0) => UNIFIED.to_vec(),
        (2, _) => UNIFIED_ABOVE.to_vec(),
        (_, height) => {
            let ours = CONTROLLERS
                .iter()
                .filter(|(controller, ..)| hierarchy.has(controller));
            let lists = ours.map(|(_, own, above)| if height == 0 { *own } else { *above });
            lists.flatten().copied().collect()
        }
    }
}

/// The controllers without the mount options that stand among them.
fn named(hierarchy: &Hierarchy) -> String {
    let options = ["rw", "ro", "xattr", "noprefix", "clone_children"];
    let controllers = hierarchy.controllers.iter().map(String::as_str);
    let controllers: Vec<&str> = controllers.filter(|name| !options.contains(name)).collect();
    controllers.join(",")
}

pub(super) fn file(
    files: &mut Files,
    reader: &mut Reader,
    directory: &Path,
    name: &str,
    gaps: &mut GapList,
) {
    let content = reader.read_path(&directory.join(name)).map(text::line);
    match content {
        Ok(content) if content.is_empty() => {
            files.unread.insert(name.to_owned());
        }
        Ok(content) => {
            files.texts.insert(name.to_owned(), content);
        }
        // Which files there are depends on the controllers and the kernel: absent ones are left out.
        Err(error) if gap_code(&error) == GapCode::Vanished => {}
        Err(error) => {
            files.unread.insert(name.to_owned());
            // The kernel has the file and answers that the feature is off, such as PSI.
            if gap_code(&error) != GapCode::Unsupported {
                gaps.note(&format!("cgroup/{name}"), &error);
            }
        }
    }
}
