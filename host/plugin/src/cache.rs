//! Compiled components on disk, one file each, named by what they were made of.
//!
//! Loading one runs it, so the directory must be ours alone: a real directory, owned by us, that nobody else may enter.
//! Where there is no such directory, code lies in memory (`memfd`) and is gone with the process. A file appears under
//! its name complete or not at all, and is never changed; it goes when it has not been used for a month, or when all
//! together are too large.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{
    AtFlags, Mode, OFlags, SealFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, fcntl_add_seals,
    fstat, futimens, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// How long a file is kept that nobody uses, seconds.
const UNUSED_SECONDS: i64 = 30 * 24 * 3600;
/// How much all files may take together, bytes.
const MOST_BYTES: i64 = 512 << 20;
/// How old a file without its name is when whoever wrote it is surely gone, seconds.
const ABANDONED_SECONDS: i64 = 3600;
/// How the name of a compiled component ends.
const COMPILED: &str = ".cwasm";
/// How the name of a file ends that is being written.
const UNFINISHED: &str = ".new";

/// The directories of which was told why they are not used: enrichers and sinks each open the same one.
static TOLD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The directory, or none.
#[derive(Debug)]
pub(crate) struct Cache {
    directory: Option<OwnedFd>,
    /// Why there is none where one was named.
    pub(crate) problem: Option<String>,
}

/// Why a directory is not used.
#[derive(Debug, thiserror::Error)]
enum Distrust {
    #[error("it is a symbolic link")]
    Link,
    #[error("it belongs to another user (uid {0})")]
    Foreign(u32),
    #[error("others may enter it (mode {0:03o}); `chmod 700` it")]
    Open(u32),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A file that is to hold a compiled component. It goes when this is dropped, unless it was kept.
pub(crate) struct Unfinished<'a> {
    /// The file.
    pub(crate) file: File,
    /// Where it lies on disk, and under which name meanwhile.
    place: Option<(&'a OwnedFd, String)>,
}

impl Cache {
    /// Opens `path`, making it where it is missing. A directory that cannot be trusted is told of.
    pub(crate) fn open(path: Option<&Path>) -> Self {
        let mut problem = None;
        let directory = path.and_then(|path| match trusted(path) {
            Ok(directory) => Some(directory),
            // As in a container that is read-only: nothing is wrong, it only takes a moment longer.
            Err(Distrust::Io(error)) => {
                if is_news(path) { tracing::info!("Plugins are compiled at each start: {}: {error}.", path.display()); }
                problem = Some(error.to_string());
                None
            }
            Err(reason) => {
                if is_news(path) {
                    let path = path.display();
                    tracing::warn!("The plugin cache {path} is not used: {reason}. Plugins are compiled at each start.");
                }
                problem = Some(reason.to_string());
                None
            }
        });
        Self { directory, problem }
    }

    /// Returns the compiled component `key`, if it is there, and notes that it was used.
    pub(crate) fn find(&self, key: &str) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(self.directory.as_ref()?, name(key), flags, Mode::empty()).ok()?;
        let when = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
        let used = Timestamps {
            last_access: when(UTIME_OMIT),
            last_modification: when(UTIME_NOW),
        };
        let _ = futimens(&file, &used); // else it is taken for unused and compiled again in a month
        Some(file.into())
    }

    /// Removes the compiled component `key`.
    pub(crate) fn remove(&self, key: &str) {
        if let Some(directory) = &self.directory {
            let _ = unlinkat(directory, name(key), AtFlags::empty());
        }
    }

    /// Returns a new file for the compiled component `key`.
    pub(crate) fn begin(&self, key: &str) -> io::Result<Unfinished<'_>> {
        let Some(directory) = &self.directory else {
            return Unfinished::in_memory();
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        for number in 0..100 {
            let name = format!("{key}-{}-{number}{UNFINISHED}", std::process::id());
            match openat(directory, &name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => {
                    return Ok(Unfinished {
                        file: file.into(),
                        place: Some((directory, name)),
                    });
                }
                // Another machine may share the directory, and its process may have our PID.
                Err(Errno::EXIST) => {}
                Err(_) => break,
            }
        }
        Unfinished::in_memory()
    }

    /// Removes what was not used for long, and the least used of too much. `now` was written just now.
    pub(crate) fn prune(&self, now: &File) {
        let Some(directory) = &self.directory else {
            return;
        };
        if let Err(error) = prune(directory, now) {
            tracing::debug!(%error, "The plugin cache cannot be pruned.");
        }
    }
}

impl Unfinished<'_> {
    /// Returns a file in memory.
    pub(crate) fn in_memory() -> io::Result<Self> {
        Ok(Self {
            file: in_memory(c"taskscope-code")?,
            place: None,
        })
    }

    /// Returns whether the file lies on disk.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.place.is_some()
    }

    /// Gives the file its name, after which it is never changed. Returns it to be loaded.
    pub(crate) fn keep(mut self, key: &str) -> io::Result<File> {
        let file = self.file.try_clone()?;
        match &self.place {
            Some((directory, unfinished)) => {
                // Before the name: after a power cut there must be all of it or nothing.
                file.sync_all()?;
                renameat(directory, unfinished, directory, name(key))?;
            }
            None => seal(&file)?,
        }
        self.place = None;
        Ok(file)
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some((directory, unfinished)) = &self.place {
            let _ = unlinkat(directory, unfinished, AtFlags::empty());
        }
    }
}

/// Returns an empty file in memory.
pub(crate) fn in_memory(name: &std::ffi::CStr) -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    Ok(file.into())
}

/// Makes that nobody can change a file in memory any more.
fn seal(file: &File) -> io::Result<()> {
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    Ok(fcntl_add_seals(file, seals)?)
}

/// Returns the path that leads to an open file of ours.
pub(crate) fn path_of(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn name(key: &str) -> String {
    format!("{key}{COMPILED}")
}

/// Tells whether nothing was told of `path` so far, and counts it as told.
fn is_news(path: &Path) -> bool {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    told.insert(path.to_owned())
}

fn trusted(path: &Path) -> Result<OwnedFd, Distrust> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP | Errno::NOTDIR if path.is_symlink() => Distrust::Link,
        other => Distrust::Io(other.into()),
    })?;
    let status = fstat(&directory).map_err(io::Error::from)?;
    if status.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Distrust::Foreign(status.st_uid));
    }
    let mode = status.st_mode & 0o777;
    if mode & 0o077 != 0 {
        return Err(Distrust::Open(mode));
    }
    // Where nothing can be written nothing is found either.
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(io::Error::from)?;
    Ok(directory)
}

fn prune(directory: &OwnedFd, now: &File) -> io::Result<()> {
    // The file system's own time, which may be another machine's.
    let now = fstat(now)?.st_mtime;
    let mut compiled = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
        let Ok(status) = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let age = now.saturating_sub(status.st_mtime);
        let is = |ending: &str| name.to_string_lossy().ends_with(ending);
        if is(UNFINISHED) && age > ABANDONED_SECONDS {
            let _ = unlinkat(directory, &name, AtFlags::empty());
        } else if is(COMPILED) {
            compiled.push((age, status.st_size, name));
        }
    }
    compiled.sort();
    let mut total = 0;
    for (age, size, name) in compiled {
        total += size;
        if age > UNUSED_SECONDS || total > MOST_BYTES {
            let _ = unlinkat(directory, &name, AtFlags::empty());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
