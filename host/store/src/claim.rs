//! Who may touch a place's folder in the spool: one collector at a time, as long as it lives.
//!
//! A lock of the kernel on the file `lock`, so it ends with its holder whatever that one dies of.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file's name in the folder.
pub(crate) const LOCK: &str = "lock";

/// A folder of the spool that is ours until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    file: File,
    path: PathBuf,
}

impl Claim {
    /// Claims `folder`, which exists; `None` while another process has it.
    pub(crate) fn of(folder: &Path) -> io::Result<Option<Self>> {
        let path = folder.join(LOCK);
        loop {
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).write(true).mode(0o600);
            let file = options.open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let claim = Self {
                file,
                path: path.clone(),
            };
            if claim.is_in_place() {
                return Ok(Some(claim));
            }
            // The holder before us took the file away after we had opened it.
        }
    }

    /// Gives the folder up and takes the file away.
    pub(crate) fn release(self) {
        let _ = fs::remove_file(&self.path);
    }

    fn is_in_place(&self) -> bool {
        let ours = self.file.metadata().map(|it| (it.dev(), it.ino())).ok();
        let there = fs::metadata(&self.path).map(|it| (it.dev(), it.ino())).ok();
        ours.is_some() && ours == there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_claimed_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = Claim::of(folder.path()).unwrap().unwrap();
        assert!(Claim::of(folder.path()).unwrap().is_none());
        first.release();
        assert!(!folder.path().join(LOCK).exists());
        let second = Claim::of(folder.path()).unwrap();
        assert!(second.is_some());
        drop(second);
        assert!(Claim::of(folder.path()).unwrap().is_some());
    }
}
