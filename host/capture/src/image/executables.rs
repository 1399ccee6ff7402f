//! Which executables have the symbols of a Python interpreter; each file is looked at once, however many processes run it.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;

use rustix::fs::{Mode, OFlags, PROC_SUPER_MAGIC, fstat, fstatfs, openat};

use super::lock;
use crate::python;

/// So many files are remembered; then all are forgotten.
const MOST_FILES: usize = 1024;

/// Device, inode, size and change of the file (seconds and nanoseconds): it may be replaced or written anew.
type FileId = (u64, u64, i64, i64, i64);

/// What is known of files.
pub(crate) type Executables = BTreeMap<FileId, bool>;

/// Returns whether the file behind the link `exe` of a process has the symbols of an interpreter; nothing where it cannot be
/// read. A file whose name was removed, or that is in another mount namespace, is reached all the same.
pub(crate) fn have_python(
    known: &Mutex<Executables>,
    directory: BorrowedFd<'_>,
    exe: &str,
) -> Option<bool> {
    // Only the kernel's own link leads to the program; in a copy of `/proc` its text may name a file of this machine.
    if fstatfs(directory).ok()?.f_type != PROC_SUPER_MAGIC {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(openat(directory, exe, flags, Mode::empty()).ok()?);
    let stat = fstat(&file).ok()?;
    let id = (
        stat.st_dev,
        stat.st_ino,
        stat.st_size,
        stat.st_ctime,
        i64::try_from(stat.st_ctime_nsec).unwrap_or_default(),
    );
    if let Some(&is_python) = lock(known).get(&id) {
        return Some(is_python);
    }
    let is_python = python::has_symbols(&file).ok()?;
    let mut known = lock(known);
    if known.len() >= MOST_FILES {
        known.clear();
    }
    known.insert(id, is_python);
    Some(is_python)
}
