//! Something is full: shared memory, a disk, the table of open files.

use model::{Mount, MountPurpose};

use super::Rule;
use crate::case::main_thread;
use crate::motion::{Motion, Seen};
use crate::scene::Scene;
use crate::verdict::{Cause, Evidence, State, Verdict};
use crate::wait::Wait;
use crate::words;

pub(super) const SHARED_MEMORY: Rule = Rule {
    name: "shm-full",
    needs: "how full `/dev/shm` is, which files of it are open or mapped, and that nothing gets on",
    proves: "there is no room for another piece as large as those that are there, and a process that uses it tries again and again",
    refuted_by: "there is room, or the task gets on",
    holds: shared_memory,
};

pub(super) const DISK: Rule = Rule {
    name: "disk-full",
    needs: "how full the file systems of the task are, who has a file open there or asks the kernel to write, and that nothing gets on",
    proves: "no room or no inode is left on one that the task writes to",
    refuted_by: "there is room, nobody writes, or the task gets on",
    holds: disk,
};

pub(super) const DESCRIPTORS: Rule = Rule {
    name: "fd-exhausted",
    needs: "the open descriptors of a process and its limit, and that nothing gets on",
    proves: "a process has as many files open as it may",
    refuted_by: "it may open more, or the task gets on",
    holds: descriptors,
};

/// A process that is not merely waiting for another: it sleeps and tries again, or its wait is not known.
fn tries_again(scene: &Scene<'_>, actor: usize) -> bool {
    let it = &scene.case.actors[actor];
    matches!(it.motion(), Motion::Idle | Motion::Still)
        && matches!(it.wait, Wait::Sleep | Wait::Unknown | Wait::Running)
}

fn first_rank(scene: &Scene<'_>, actors: &mut [usize]) -> Option<usize> {
    let key = |actor: &usize| {
        let it = &scene.case.actors[*actor];
        (it.motion() != Motion::Idle, !it.is_rank, it.rank, *actor)
    };
    actors.sort_by_key(key);
    actors.first().copied()
}

fn shared_memory(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    let mut found = Vec::new();
    for (node, it) in case.nodes.iter().enumerate() {
        let newest = it.newest();
        let mounts = newest.filesystem.mounts.iter();
        let Some((index, mount)) = mounts
            .enumerate()
            .find(|(_, it)| it.purpose == MountPurpose::SharedMemory)
        else {
            continue;
        };
        let in_shm = |target: &str| target.starts_with("/dev/shm/");
        let files = newest
            .ipc
            .shared_memory
            .iter()
            .filter(|file| in_shm(&file.name));
        let largest = files.filter_map(|file| file.size_bytes).max().unwrap_or(0);
        if !is_full(mount, largest) {
            continue;
        }
        let uses = |actor: usize| {
            let process = case.actors[actor].process;
            let descriptors = process.proc.file_descriptors.iter();
            let mut files = newest.ipc.shared_memory.iter();
            descriptors.into_iter().any(|it| in_shm(&it.target))
                || files.any(|file| {
                    in_shm(&file.name)
                        && file.mapped.iter().any(|it| it.identity == process.identity)
                })
        };
        let on_node = case.alive().filter(|(_, actor)| actor.node == node);
        let mut guilty: Vec<usize> = on_node
            .map(|(index, _)| index)
            .filter(|it| tries_again(scene, *it) && uses(*it))
            .collect();
        if let Some(culprit) = first_rank(scene, &mut guilty) {
            found.push((node, index, mount, culprit));
        }
    }
    if found.is_empty() {
        return Err("there is room in /dev/shm, or nobody who uses it tries again".to_owned());
    }
    scene.must_stand()?;
    let found = found.into_iter().map(|(node, index, mount, culprit)| {
        let path = format!("/filesystem/mounts/{index}");
        let summary = format!(
            "/dev/shm is full ({} of {} are left) and {} tries again and again{}.",
            words::size(mount.bytes_available.unwrap_or(0)),
            words::size(mount.bytes_total.unwrap_or(0)),
            words::who(case, culprit),
            words::at_actor(case, culprit),
        );
        full(scene, Cause::ShmFull, node, culprit, &path, summary)
    });
    Ok(found.collect())
}

fn full(
    scene: &Scene<'_>,
    cause: Cause,
    node: usize,
    culprit: usize,
    path: &str,
    summary: String,
) -> Verdict {
    let keys = ["bytes_available", "bytes_total", "inodes_free", "path"];
    let numbers = keys
        .iter()
        .filter_map(|key| scene.case.cite_newest(node, &format!("{path}/{key}")));
    let victims = scene.victims(&[culprit]);
    let claim = scene
        .claim(State::Hung, cause)
        .by(culprit)
        .holding_up(&victims);
    claim
        .shown_by(numbers.collect::<Vec<Evidence>>())
        .shown_by(scene.standing(culprit))
        .say(summary)
}

/// Whether nothing more fits: under a hundredth is left, or less than the `largest` piece that is there.
fn is_full(mount: &Mount, largest: u64) -> bool {
    let (Some(available), Some(total)) = (mount.bytes_available, mount.bytes_total) else {
        return false;
    };
    let no_inodes =
        mount.inodes_total.is_some_and(|total| total > 0) && mount.inodes_free == Some(0);
    // A page more than the piece itself: what is handed out is whole pages.
    no_inodes
        || (total > 0
            && (available < total / 100
                || (available < largest.saturating_add(4096) && available < total / 4)))
}

/// So little room is none.
const NOTHING: u64 = 64 << 10;

fn disk(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    let mut found = Vec::new();
    for (node, it) in case.nodes.iter().enumerate() {
        for (index, mount) in it.newest().filesystem.mounts.iter().enumerate() {
            let ours = matches!(
                mount.purpose,
                MountPurpose::SharedMemory | MountPurpose::Spool
            );
            if ours || !is_full(mount, 0) {
                continue;
            }
            let on_node = case.alive().filter(|(_, actor)| actor.node == node);
            let writes = |actor: usize| writes_below(scene, actor, mount);
            let wants = |actor: usize| seems_to_want(scene, actor, mount);
            let mut guilty: Vec<usize> = on_node
                .map(|(index, _)| index)
                .filter(|it| tries_again(scene, *it) && (writes(*it) || wants(*it)))
                .collect();
            guilty.sort_by_key(|actor| !writes(*actor));
            let writers: Vec<usize> = guilty.iter().copied().filter(|it| writes(*it)).collect();
            let mut guilty = if writers.is_empty() { guilty } else { writers };
            if let Some(culprit) = first_rank(scene, &mut guilty) {
                found.push((node, index, mount, culprit));
            }
        }
    }
    if found.is_empty() {
        return Err("no file system of the task is full, or nobody tries again".to_owned());
    }
    scene.must_stand()?;
    let found = found.into_iter().map(|(node, index, mount, culprit)| {
        let what = if mount.bytes_available == Some(0) || mount.inodes_free != Some(0) {
            let left = words::size(mount.bytes_available.unwrap_or(0));
            format!("{left} are left")
        } else {
            "no inode is left".to_owned()
        };
        let summary = format!(
            "The file system of {} is full ({what}) and {} tries again and again{}.",
            words::safe(&mount.path),
            words::who(case, culprit),
            words::at_actor(case, culprit),
        );
        full(
            scene,
            Cause::DiskFull,
            node,
            culprit,
            &format!("/filesystem/mounts/{index}"),
            summary,
        )
    });
    Ok(found.collect())
}

/// Whether a process may want room there, as what it asks of the kernel tells. That it could not make a file, nothing counts. That it
/// could not write, the calls do; where they wrote something, it may well be elsewhere, such as to a log.
fn seems_to_want(scene: &Scene<'_>, actor: usize, mount: &Mount) -> bool {
    let is_its_own = mount.purpose != MountPurpose::Elsewhere;
    let is_at_its_end = mount.bytes_available.is_some_and(|left| left < NOTHING);
    let in_vain = |seen: Seen| {
        let some_may = is_its_own && is_at_its_end;
        seen.write_calls > 0 && (some_may || seen.written_bytes == 0)
    };
    let seen = scene.case.actors[actor].seen;
    (is_its_own && mount.inodes_free == Some(0)) || seen.is_some_and(in_vain)
}

/// Whether a process has a file of that file system open for writing.
fn writes_below(scene: &Scene<'_>, actor: usize, mount: &Mount) -> bool {
    let below = mount.mount_point.as_deref().unwrap_or(&mount.path);
    let process = scene.case.actors[actor].process;
    let mut descriptors = process.proc.file_descriptors.iter();
    descriptors.any(|it| {
        let flags = it.info.as_ref().and_then(|info| info.get("flags"));
        let writes = flags
            .and_then(|flags| u32::from_str_radix(flags, 8).ok())
            .is_some_and(|flags| flags & 3 != 0);
        writes && it.target.starts_with(below) && !it.target.starts_with("/dev/")
    })
}

/// So many may be left that one attempt needs more: a child with two pipes, and one for its errors, takes six.
const SEVERAL: u64 = 5;

fn descriptors(scene: &Scene<'_>) -> Result<Vec<Verdict>, String> {
    let case = &scene.case;
    let mut guilty: Vec<(usize, u64, usize)> = Vec::new();
    for (index, actor) in case.alive() {
        let Some((line, limit)) = limit(&actor.process.proc.limits) else {
            continue;
        };
        let open = actor.process.proc.file_descriptors.len() as u64;
        // What takes several at a time gives back those that it got before it tries again.
        let nearly = limit - (limit / 5).min(SEVERAL);
        let is_full = open >= limit || (open >= nearly && tries_again(scene, index));
        if open > 0 && is_full && main_thread(actor.process).is_some() {
            guilty.push((index, limit, line));
        }
    }
    let Some(&(culprit, limit, line)) = guilty.first() else {
        return Err("every process may open more files".to_owned());
    };
    scene.must_stand()?;
    let open = case.actors[culprit].process.proc.file_descriptors.len();
    let what = if open as u64 >= limit {
        "nothing more can be opened or accepted"
    } else {
        "what it opens or accepts at a time may not fit"
    };
    let summary = format!(
        "{} has {open} files open and may open {limit}: {what}{}.",
        words::who(case, culprit),
        words::at_actor(case, culprit),
    );
    let victims = scene.victims(&[culprit]);
    let claim = scene
        .claim(State::Hung, Cause::FdExhausted)
        .by(culprit)
        .holding_up(&victims);
    let evidence = [
        case.cite(culprit, &format!("proc/limits/{line}")),
        case.cite(culprit, &format!("proc/file_descriptors/{}/fd", open - 1)),
    ];
    let claim = claim
        .shown_by(evidence.into_iter().flatten())
        .shown_by(scene.standing(culprit));
    Ok(vec![claim.say(summary)])
}

/// The soft limit of open files, and the line of `/proc/PID/limits` that says so.
pub(crate) fn limit(lines: &[String]) -> Option<(usize, u64)> {
    let line = lines
        .iter()
        .position(|line| line.starts_with("Max open files"))?;
    let numbers = lines[line].trim_start_matches("Max open files");
    let soft = numbers.split_whitespace().next()?.parse().ok()?;
    Some((line, soft))
}
