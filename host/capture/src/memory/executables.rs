//! What the symbols of executables and libraries say; each file is looked at once, however many processes run it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{Mode, OFlags, PROC_SUPER_MAGIC, fstat, fstatfs, openat};

use crate::elf::{Elf, Place};
use crate::python;

/// So many files are remembered; then all are forgotten.
const MOST_FILES: usize = 1024;

/// Names of the variable that points to the environment, in glibc and in musl.
const ENVIRON: [&str; 3] = ["environ", "__environ", "_environ"];

/// Device, inode, size and change of the file (seconds and nanoseconds): it may be replaced or written anew.
type FileId = (u64, u64, i64, i64, i64);

/// What is known of files.
#[derive(Default)]
pub(super) struct Executables {
    /// Where the pointer to the environment is.
    environ: BTreeMap<FileId, Option<Place>>,
    /// Whether it has the symbols of an interpreter.
    python: BTreeMap<FileId, bool>,
}

/// Returns whether the file behind the link `exe` of a process has the symbols of an interpreter; nothing where it cannot be
/// read. A file whose name was removed, or that is in another mount namespace, is reached all the same.
pub(super) fn have_python(
    known: &mut Executables,
    directory: BorrowedFd<'_>,
    exe: &str,
) -> Option<bool> {
    let file = open_exe(directory, exe)?;
    let id = file_id(&file).ok()?;
    if let Some(&is_python) = known.python.get(&id) {
        return Some(is_python);
    }
    let is_python = python::has_symbols(&file).ok()?;
    if known.python.len() >= MOST_FILES {
        known.python.clear();
    }
    known.python.insert(id, is_python);
    Some(is_python)
}

/// Returns where `file` keeps the pointer to the environment, if it is a file that does.
pub(super) fn environ(known: &mut Executables, file: &File) -> io::Result<Option<Place>> {
    let id = file_id(file)?;
    if let Some(&place) = known.environ.get(&id) {
        return Ok(place);
    }
    let place = match Elf::read(file)? {
        Some(elf) => elf
            .variable(file, &ENVIRON)?
            .map(|linked| elf.place(linked)),
        None => None,
    };
    if known.environ.len() >= MOST_FILES {
        known.environ.clear();
    }
    known.environ.insert(id, place);
    Ok(place)
}

/// Opens the program of a process. Only the kernel's own link leads to it; in a copy of `/proc` its text may name a file of
/// this machine.
pub(super) fn open_exe(directory: BorrowedFd<'_>, exe: &str) -> Option<File> {
    if fstatfs(directory).ok()?.f_type != PROC_SUPER_MAGIC {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Some(File::from(
        openat(directory, exe, flags, Mode::empty()).ok()?,
    ))
}

fn file_id(file: &File) -> io::Result<FileId> {
    let stat = fstat(file)?;
    Ok((
        stat.st_dev,
        stat.st_ino,
        stat.st_size,
        stat.st_ctime,
        i64::try_from(stat.st_ctime_nsec).unwrap_or_default(),
    ))
}
