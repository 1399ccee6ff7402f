//! A folder in a directory of everybody's that is this user's alone.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns `taskscope-UID` in `directory`.
pub(crate) fn in_directory(directory: &Path) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    directory.join(format!("taskscope-{user}"))
}

/// A name that anybody can guess in a directory of everybody's may be somebody else's.
pub(crate) fn is_ours_alone(directory: &Path) -> bool {
    fs::symlink_metadata(directory).is_ok_and(|metadata| {
        metadata.is_dir()
            && metadata.uid() == rustix::process::geteuid().as_raw()
            && metadata.mode().trailing_zeros() >= 6 // nothing for group and others
    })
}
