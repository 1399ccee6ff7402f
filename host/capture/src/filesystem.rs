//! The `filesystem` object of a snapshot: how full the file systems are that the task uses.

mod asker;
mod mount_table;

use std::path::{Path, PathBuf};

use model::{Filesystem, Gap, GapCode, Mount, MountPurpose, Process, ProcessId, SharedMemory};
use rustix::fs::{StatVfs, StatVfsMountFlags};

pub(crate) use asker::Asker;
use asker::{Answer, Question};

use crate::error::gap_code;
use crate::gaps::GapList;
use crate::machine::Machine;
use mount_table::MountTable;

/// Where a task keeps temporary files when it does not say.
const TEMPORARY: &str = "/tmp";

/// A place that the task uses.
struct Place {
    purpose: MountPurpose,
    /// As the task sees it.
    path: PathBuf,
    /// As we see it.
    ours: PathBuf,
}

/// Asks the file systems that the task uses whose main process is `root`, among `processes`.
/// What cannot be found out goes to `gaps`, or to `process_gaps` where the process keeps it from us.
pub(crate) fn read(
    machine: &Machine,
    (root, processes): (ProcessId, &[Process]),
    gaps: &mut GapList,
    process_gaps: &mut Vec<Gap>,
) -> Filesystem {
    let directory = machine.proc.join(root.pid.to_string());
    let view = View::of(machine, &directory);
    let mut places = vec![Place {
        purpose: MountPurpose::SharedMemory,
        path: machine.shared_memory.clone(),
        ours: view.ours(&machine.shared_memory),
    }];
    let link = directory.join("cwd");
    match std::fs::read_link(&link) {
        // The link itself leads to the directory, wherever in the task's own mounts it is.
        Ok(path) => places.push(Place {
            purpose: MountPurpose::WorkingDirectory,
            path,
            ours: link,
        }),
        // A process that is gone has its own gap.
        Err(error) if gap_code(&error) == GapCode::Vanished => {}
        Err(error) => {
            let mut denied = GapList::of(root);
            denied.note("cwd", &error);
            for mut gap in denied.finish() {
                // Each remedy is said once a process.
                let said = |other: &Gap| other.process == gap.process && other.remedy == gap.remedy;
                if process_gaps.iter().any(said) {
                    gap.remedy = None;
                }
                process_gaps.push(gap);
            }
        }
    }
    let temporary = temporary(processes, root).unwrap_or(TEMPORARY);
    let temporary = PathBuf::from(temporary);
    // A relative one is relative to a directory that may have changed since.
    if temporary.is_absolute() {
        places.push(Place {
            purpose: MountPurpose::Temporary,
            ours: view.ours(&temporary),
            path: temporary,
        });
    }
    if let Some(spool) = &machine.spool {
        places.push(Place {
            purpose: MountPurpose::Spool,
            path: spool.clone(),
            ours: spool.clone(),
        });
    }
    let table = MountTable::read(&directory);
    places.extend(table.writable().map(|path| Place {
        purpose: MountPurpose::Elsewhere,
        ours: view.ours(path),
        path: path.to_owned(),
    }));
    ask(machine, &table, &places, gaps)
}

/// Where the main process keeps its temporary files, as far as its environment says.
fn temporary(processes: &[Process], root: ProcessId) -> Option<&str> {
    let mut processes = processes.iter();
    let root = processes.find(|process| process.identity == root)?;
    let directory = root.distributed_environment.get("TMPDIR")?;
    Some(directory.as_str()).filter(|directory| !directory.is_empty())
}

fn ask(machine: &Machine, table: &MountTable, places: &[Place], gaps: &mut GapList) -> Filesystem {
    let questions: Vec<Question> = places
        .iter()
        .map(|place| Question {
            path: place.ours.clone(),
            // Ours is made when the first snapshot waits in it.
            or_above: place.purpose == MountPurpose::Spool,
        })
        .collect();
    let answers = machine.file_systems.ask(&questions);
    let own_table = machine
        .spool
        .as_ref()
        .map(|_| MountTable::read(&machine.proc.join("self")))
        .unwrap_or_default();
    let mut filesystem = Filesystem::default();
    for (place, answer) in places.iter().zip(answers) {
        if place.purpose == MountPurpose::Elsewhere {
            filesystem.mounts.extend(full(place, answer, table));
            continue;
        }
        let facts = settle(place, answer, gaps);
        let table = match place.purpose {
            MountPurpose::Spool => &own_table,
            _ => table,
        };
        if place.purpose == MountPurpose::SharedMemory {
            filesystem.shared_memory = shared_memory(&place.path, facts.as_ref());
        }
        filesystem.mounts.push(mount(place, facts.as_ref(), table));
    }
    filesystem
}

/// Another file system that the task may write to, where nothing fits on it any more. What cannot be asked is not told of: nobody has
/// said that the task uses it.
fn full(place: &Place, answer: Answer, table: &MountTable) -> Option<Mount> {
    match answer {
        Answer::Facts(facts) if is_full(&facts) => Some(mount(place, Some(&facts), table)),
        _ => None,
    }
}

/// Whether less than a hundredth, or no inode, is left of a file system that is not read only.
fn is_full(facts: &StatVfs) -> bool {
    let is_writable = !facts.f_flag.contains(StatVfsMountFlags::RDONLY);
    let has_no_room = facts.f_blocks > 0 && facts.f_bavail < facts.f_blocks / 100;
    is_writable && (has_no_room || (facts.f_files > 0 && facts.f_ffree == 0))
}

fn settle(place: &Place, answer: Answer, gaps: &mut GapList) -> Option<StatVfs> {
    let path = place.path.display().to_string();
    let detail = match answer {
        Answer::Facts(facts) => return Some(facts),
        Answer::Failed(error) => {
            gaps.note(&path, &error);
            return None;
        }
        Answer::Blocked => "its file system did not answer; the call was abandoned",
        Answer::StillBlocked => "an earlier call to its file system has not returned yet",
    };
    gaps.add(Gap::new(path, GapCode::BlockedRead).with_detail(detail));
    None
}

fn shared_memory(path: &Path, facts: Option<&StatVfs>) -> SharedMemory {
    let path = path.display().to_string();
    let Some(facts) = facts else {
        return SharedMemory {
            path,
            ..SharedMemory::default()
        };
    };
    SharedMemory {
        available: true,
        block_size: Some(facts.f_frsize),
        blocks: Some(facts.f_blocks),
        blocks_available: Some(facts.f_bavail),
        blocks_free: Some(facts.f_bfree),
        bytes_available: facts.f_bavail.checked_mul(facts.f_frsize),
        bytes_total: facts.f_blocks.checked_mul(facts.f_frsize),
        path,
    }
}

fn mount(place: &Place, facts: Option<&StatVfs>, table: &MountTable) -> Mount {
    let entry = table.of(&place.path);
    let bytes = |blocks: fn(&StatVfs) -> u64| {
        let facts = facts?;
        blocks(facts).checked_mul(facts.f_frsize)
    };
    Mount {
        bytes_available: bytes(|facts| facts.f_bavail),
        bytes_free: bytes(|facts| facts.f_bfree),
        bytes_total: bytes(|facts| facts.f_blocks),
        inodes_free: facts.map(|facts| facts.f_ffree),
        inodes_total: facts.map(|facts| facts.f_files),
        is_read_only: facts.map(|facts| facts.f_flag.contains(StatVfsMountFlags::RDONLY)),
        mount_point: entry.map(|entry| entry.mount_point.display().to_string()),
        path: place.path.display().to_string(),
        purpose: place.purpose,
        source: entry.and_then(|entry| entry.mount_source.clone()),
        kind: entry.map(|entry| entry.fs_type.clone()),
    }
}

/// How paths of the task are to be read by us.
struct View {
    /// `/proc/PID/root`, where the task has other mounts or another root than we have.
    through: Option<PathBuf>,
}

impl View {
    fn of(machine: &Machine, directory: &Path) -> Self {
        let link = |path: PathBuf| std::fs::read_link(path).ok();
        let root = link(directory.join("root"));
        let mounts = link(directory.join("ns/mnt"));
        let our_mounts = link(machine.proc.join("self/ns/mnt"));
        let is_ours = root.as_deref().is_none_or(|root| root == Path::new("/"))
            && (mounts.is_none() || our_mounts.is_none() || mounts == our_mounts);
        Self {
            through: (!is_ours).then(|| directory.join("root")),
        }
    }

    fn ours(&self, path: &Path) -> PathBuf {
        match (&self.through, path.strip_prefix("/")) {
            (Some(through), Ok(below)) => through.join(below),
            _ => path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(available: u64, inodes: (u64, u64), f_flag: StatVfsMountFlags) -> StatVfs {
        StatVfs {
            f_bavail: available,
            f_bfree: available,
            f_blocks: 1000,
            f_bsize: 4096,
            f_favail: inodes.0,
            f_ffree: inodes.0,
            f_files: inodes.1,
            f_flag,
            f_frsize: 4096,
            f_fsid: 0,
            f_namemax: 255,
        }
    }

    #[test]
    fn what_has_no_room_or_no_inode_is_full_unless_nobody_may_write_there() {
        let writable = StatVfsMountFlags::empty();
        assert!(is_full(&facts(9, (5, 10), writable)));
        assert!(is_full(&facts(500, (0, 10), writable)));
        assert!(!is_full(&facts(10, (5, 10), writable)));
        // One that counts no inodes, and an image.
        assert!(!is_full(&facts(500, (0, 0), writable)));
        assert!(!is_full(&facts(0, (0, 10), StatVfsMountFlags::RDONLY)));
    }
}
