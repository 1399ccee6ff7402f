//! Limits that are near: what will not go on for long, whoever waits for whom. Of one snapshot.

use model::{MountPurpose, Process, Snapshot, Target};

use super::episode::Claim;
use crate::pointer::resolve;
use crate::rules::cgroup_levels;
use crate::verdict::Cause;
use crate::words::safe;

/// A limit is near from this part of it on, in hundredths, …
const NEAR: u64 = 95;
/// … and is not any more below this one.
const FAR: u64 = 90;
/// A disk with more than this left is not full, however large it is.
const PLENTY: u64 = 10 << 30;

/// One limit.
struct Measure {
    kind: String,
    subject: String,
    target: Target,
    /// How much is used, of how much.
    used: u64,
    limit: u64,
    words: String,
    evidence: Vec<String>,
}

/// Returns the limits that are near; `is_told` says of a kind and subject whether it was near before.
pub(super) fn near(snapshot: &Snapshot, is_told: impl Fn(&str, &str) -> bool) -> Vec<Claim> {
    let mut measures = memory(snapshot);
    measures.extend(threads(snapshot));
    measures.extend(rooms(snapshot));
    measures.extend(snapshot.processes.iter().enumerate().filter_map(files));
    let is_near = |it: &Measure| {
        let from = if is_told(&it.kind, &it.subject) {
            FAR
        } else {
            NEAR
        };
        it.limit > 0 && percent(it.used, it.limit) >= from
    };
    let near = measures.into_iter().filter(is_near);
    near.map(|it| claim(snapshot, it)).collect()
}

fn percent(used: u64, limit: u64) -> u64 {
    let percent = u128::from(used) * 100 / u128::from(limit.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}

fn claim(snapshot: &Snapshot, measure: Measure) -> Claim {
    let id = snapshot.capture.id.to_string();
    let cited = measure.evidence.into_iter().filter_map(|pointer| {
        let value = resolve(snapshot, &pointer)?.to_string();
        Some((id.clone(), pointer, value))
    });
    let message = format!(
        "a limit is near ({}): {} % of {}",
        measure.kind,
        percent(measure.used, measure.limit),
        measure.words,
    );
    Claim {
        evidence: cited.collect(),
        kind: measure.kind,
        message,
        subject: measure.subject,
        target: measure.target,
    }
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

/// Memory of the cgroups whose page cache is known: what can be given up is no need. Without any limit, the machine's.
fn memory(snapshot: &Snapshot) -> Vec<Measure> {
    let mut found = Vec::new();
    for (pointer, level) in cgroup_levels(snapshot) {
        let Some(memory) = &level.memory else {
            continue;
        };
        let (Some(limit), Some(usage), Some(files), Some(shared)) = (
            memory.limit_bytes.number(),
            memory.usage_bytes,
            memory.file_bytes,
            memory.shmem_bytes,
        ) else {
            continue;
        };
        // Shared memory counts as page cache and cannot be given up.
        let cache = files.saturating_sub(shared);
        let keys = ["usage_bytes", "file_bytes", "shmem_bytes", "limit_bytes"];
        found.push(Measure {
            kind: Cause::MemoryPressure.word(),
            subject: level.path.clone(),
            target: Target::Snapshot,
            used: usage.saturating_sub(cache),
            limit,
            words: format!("the {} MiB of memory of its cgroup are used", mib(limit)),
            evidence: keys.map(|key| format!("{pointer}/memory/{key}")).to_vec(),
        });
    }
    let machine = &snapshot.machine;
    if let (Some(available), Some(total)) =
        (machine.memory_available_bytes, machine.memory_total_bytes)
    {
        let keys = ["memory_available_bytes", "memory_total_bytes"];
        found.push(Measure {
            kind: Cause::MemoryPressure.word(),
            subject: "machine".to_owned(),
            target: Target::Snapshot,
            used: total.saturating_sub(available),
            limit: total,
            words: format!("the {} MiB of memory of the machine are used", mib(total)),
            evidence: keys.map(|key| format!("/machine/{key}")).to_vec(),
        });
    }
    found
}

/// Processes and threads of cgroups.
fn threads(snapshot: &Snapshot) -> Vec<Measure> {
    let levels = cgroup_levels(snapshot).into_iter();
    let levels = levels.filter_map(|(pointer, level)| {
        let pids = level.pids.as_ref()?;
        let limit = pids.limit.number()?;
        Some(Measure {
            kind: "pids-exhausted".to_owned(),
            subject: level.path.clone(),
            target: Target::Snapshot,
            used: pids.usage?,
            limit,
            words: format!("the {limit} processes and threads that its cgroup may have are there"),
            evidence: ["usage", "limit"]
                .map(|key| format!("{pointer}/pids/{key}"))
                .to_vec(),
        })
    });
    levels.collect()
}

/// Room of file systems.
fn rooms(snapshot: &Snapshot) -> Vec<Measure> {
    let mounts = snapshot.filesystem.mounts.iter().enumerate();
    let mounts = mounts.filter_map(|(index, mount)| {
        let cause = match mount.purpose {
            MountPurpose::SharedMemory => Cause::ShmFull,
            MountPurpose::WorkingDirectory | MountPurpose::Temporary => Cause::DiskFull,
            // Ours to speak of elsewhere; and that the task uses another is not known.
            MountPurpose::Spool | MountPurpose::Elsewhere => return None,
        };
        let (available, limit) = (mount.bytes_available?, mount.bytes_total?);
        if available >= PLENTY || mount.is_read_only == Some(true) {
            return None;
        }
        let at = mount.mount_point.as_ref().unwrap_or(&mount.path);
        Some(Measure {
            kind: cause.word(),
            subject: at.clone(),
            target: Target::Snapshot,
            used: limit.saturating_sub(available),
            limit,
            words: format!(
                "{} ({}) are used, {} MiB are left",
                safe(&mount.path),
                format_args!("{} MiB", mib(limit)),
                mib(available)
            ),
            evidence: ["bytes_available", "bytes_total"]
                .map(|key| format!("/filesystem/mounts/{index}/{key}"))
                .to_vec(),
        })
    });
    mounts.collect()
}

/// Open files of a process.
fn files((index, process): (usize, &Process)) -> Option<Measure> {
    let (line, limit) = crate::rules::open_files_limit(&process.proc.limits)?;
    let open = process.proc.file_descriptors.len();
    let last = open.checked_sub(1)?;
    Some(Measure {
        kind: Cause::FdExhausted.word(),
        subject: process.identity.to_string(),
        target: Target::Process(process.identity),
        used: u64::try_from(open).unwrap_or(u64::MAX),
        limit,
        words: format!(
            "the {limit} files that process {} may have open are open",
            process.pid
        ),
        evidence: vec![
            format!("/processes/{index}/proc/limits/{line}"),
            format!("/processes/{index}/proc/file_descriptors/{last}/fd"),
        ],
    })
}
