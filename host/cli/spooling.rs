//! Where snapshots wait until they are stored: the first of several directories that can be written.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use store::{Location, SpoolSettings};

use crate::config::SpoolChoices;
use crate::environment;
use crate::own_folder;

/// Returns the spool for the store at `location`. It tries what can be written, which may hang on a dead mount.
pub(crate) fn spool(location: &Location, choices: &SpoolChoices) -> SpoolSettings {
    let name = location.file_name();
    let directory = match (&choices.directory, location.directory()) {
        (Some(directory), _) => directory.join(name),
        (None, Some(store)) if can_be_written(store) => store.join(".spool"),
        (None, _) => of_the_user(&name),
    };
    SpoolSettings {
        directory,
        max_size_bytes: choices.max_size.bytes(),
    }
}

/// Returns the user's own place, where no directory is set and none is beside the snapshots.
pub(crate) fn of_the_user(name: &str) -> PathBuf {
    let state = environment::state_directory().join("taskscope/spool");
    if can_be_written(&state) {
        return state.join(name);
    }
    let temporary = own_folder::in_directory(&std::env::temp_dir());
    if can_be_written(&temporary) && own_folder::is_ours_alone(&temporary) {
        return temporary.join("spool").join(name);
    }
    // Nothing can be written; what fails there says why.
    state.join(name)
}

/// Whether `directory` can be written, which is made where it is missing.
fn can_be_written(directory: &Path) -> bool {
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    made.is_ok() && rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok()
}
