//! The `filesystem` object of a snapshot: how full the shared memory is.

use std::path::Path;

use model::{Filesystem, SharedMemory};
use rustix::fs::statvfs;

use crate::gaps::GapList;

/// Asks the file system at `shared_memory`.
pub(crate) fn read(shared_memory: &Path, gaps: &mut GapList) -> Filesystem {
    let path = shared_memory.display().to_string();
    let asked = statvfs(shared_memory).map_err(std::io::Error::from);
    let Some(facts) = gaps.keep(&path, asked) else {
        return Filesystem {
            shared_memory: SharedMemory {
                path,
                ..SharedMemory::default()
            },
        };
    };
    Filesystem {
        shared_memory: SharedMemory {
            available: true,
            block_size: Some(facts.f_frsize),
            blocks: Some(facts.f_blocks),
            blocks_available: Some(facts.f_bavail),
            blocks_free: Some(facts.f_bfree),
            bytes_available: facts.f_bavail.checked_mul(facts.f_frsize),
            bytes_total: facts.f_blocks.checked_mul(facts.f_frsize),
            path,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_there_where_the_path_is() {
        let directory = tempfile::tempdir().unwrap();
        let mut gaps = GapList::of_machine();
        let shared_memory = read(directory.path(), &mut gaps).shared_memory;
        assert!(shared_memory.available);
        let blocks = shared_memory.blocks.unwrap() * shared_memory.block_size.unwrap();
        assert_eq!(shared_memory.bytes_total, Some(blocks));
        assert!(gaps.finish().is_empty());
    }

    #[test]
    fn a_missing_path_is_a_gap_and_not_a_zero() {
        let mut gaps = GapList::of_machine();
        let shared_memory = read(Path::new("/nowhere/shm"), &mut gaps).shared_memory;
        assert!(!shared_memory.available);
        assert_eq!(shared_memory.bytes_total, None);
        assert_eq!(gaps.finish()[0].what, "/nowhere/shm");
    }
}
