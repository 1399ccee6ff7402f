//! What was the matter around a process when it ended: facts of the last snapshot that may explain it.

use model::{Circumstance, Ending, Filesystem, Mount, MountPurpose};

/// SIGBUS, which who writes to a page of shared memory gets where there is no room for it.
const BUS: i32 = 7;
/// A file system with less room than one part in so many is full.
const FULL: u64 = 50;
/// Less room is none: a page of a file, and a little.
const NOTHING: u64 = 64 << 10;
/// So many descriptors below the limit the next accept or open of a pair fails.
const SPARE_DESCRIPTORS: u64 = 4;

/// Returns the circumstances of an end like this, of a process that had so many descriptors open of so many, when the file
/// systems of the task were last like this.
pub(super) fn circumstances(
    ending: Ending,
    descriptors: Option<(u64, u64)>,
    filesystem: &Filesystem,
) -> Vec<Circumstance> {
    let mut found = Vec::new();
    if ending.signal() == Some(BUS) {
        let mut mounts = filesystem.mounts.iter();
        let shared = mounts.find(|mount| mount.purpose == MountPurpose::SharedMemory);
        found.extend(shared.and_then(shared_memory_full));
    }
    if !is_failure(ending) {
        return found;
    }
    if let Some((open, limit)) = descriptors
        && open.saturating_add(SPARE_DESCRIPTORS) >= limit
    {
        found.push(Circumstance::DescriptorsExhausted { limit, open });
    }
    let written = filesystem.mounts.iter().filter(|mount| {
        matches!(
            mount.purpose,
            MountPurpose::WorkingDirectory | MountPurpose::Temporary
        )
    });
    let mut full: Vec<Circumstance> = written.filter_map(disk_full).collect();
    full.dedup();
    found.extend(full);
    found
}

/// Whether somebody may look for a cause: a program's own failure, or an abort, as C++ does when a write fails.
fn is_failure(ending: Ending) -> bool {
    match ending {
        Ending::Exited(code) => code != 0,
        Ending::Killed { signal, .. } => [6, BUS, 11].contains(&signal),
        Ending::Unknown => false,
    }
}

fn shared_memory_full(mount: &Mount) -> Option<Circumstance> {
    let (available_bytes, total_bytes) = (mount.bytes_available?, mount.bytes_total?);
    is_full(available_bytes, total_bytes).then(|| Circumstance::SharedMemoryFull {
        available_bytes,
        path: mount.path.clone(),
        total_bytes,
    })
}

fn disk_full(mount: &Mount) -> Option<Circumstance> {
    let (available_bytes, total_bytes) = (mount.bytes_available?, mount.bytes_total?);
    let inodes = mount
        .inodes_free
        .filter(|_| mount.inodes_total.is_some_and(|total| total > 0));
    let inodes_available = inodes.filter(|&free| free == 0);
    // Of a large disk two per cent are room; a program fails for want of it when there is none.
    let is_full = total_bytes > 0 && available_bytes <= NOTHING.max(total_bytes / 1000);
    (is_full || inodes_available.is_some()).then(|| Circumstance::DiskFull {
        available_bytes,
        inodes_available,
        path: mount.path.clone(),
        total_bytes,
    })
}

fn is_full(available: u64, total: u64) -> bool {
    total > 0 && available <= total / FULL
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(purpose: MountPurpose, available: u64, total: u64) -> Mount {
        Mount {
            bytes_available: Some(available),
            bytes_free: Some(available),
            bytes_total: Some(total),
            inodes_free: Some(9),
            inodes_total: Some(10),
            is_read_only: Some(false),
            mount_point: None,
            path: "/x".to_owned(),
            purpose,
            source: None,
            kind: None,
        }
    }

    fn around(ending: i32, mounts: Vec<Mount>) -> Vec<Circumstance> {
        let filesystem = Filesystem {
            mounts,
            ..Filesystem::default()
        };
        circumstances(
            Ending::from_wait_status(ending),
            Some((1021, 1024)),
            &filesystem,
        )
    }

    #[test]
    fn a_bus_error_with_shared_memory_full_is_told_from_one_without() {
        let shm = |available| mount(MountPurpose::SharedMemory, available, 64 << 20);
        let full = around(7, vec![shm(1 << 20)]);
        assert!(
            matches!(full[0], Circumstance::SharedMemoryFull { available_bytes, .. } if available_bytes == 1 << 20)
        );
        let roomy = around(7, vec![shm(32 << 20)]);
        assert!(
            !roomy
                .iter()
                .any(|one| matches!(one, Circumstance::SharedMemoryFull { .. }))
        );
        // Nobody who exits or is killed has hit a page that is not there.
        assert!(around(9, vec![shm(0)]).is_empty());
    }

    #[test]
    fn a_failure_on_a_full_disk_or_without_descriptors_says_so() {
        let disk = mount(MountPurpose::WorkingDirectory, 4096, 1 << 30);
        let found = around(0x0100, vec![disk.clone()]);
        assert_eq!(
            found[0],
            Circumstance::DescriptorsExhausted {
                limit: 1024,
                open: 1021
            }
        );
        assert!(matches!(found[1], Circumstance::DiskFull { .. }));
        assert!(around(0, vec![disk]).is_empty());
        let roomy = mount(MountPurpose::Temporary, 20 << 20, 1 << 30);
        assert_eq!(around(0x0100, vec![roomy]).len(), 1);
    }

    #[test]
    fn a_disk_without_inodes_is_full_and_one_that_counts_none_is_not() {
        let mut disk = mount(MountPurpose::WorkingDirectory, 1 << 29, 1 << 30);
        disk.inodes_free = Some(0);
        assert_eq!(around(0x0100, vec![disk.clone()]).len(), 2);
        disk.inodes_total = Some(0);
        assert_eq!(around(0x0100, vec![disk]).len(), 1);
    }
}
