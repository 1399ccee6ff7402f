//! Kernel files that stay open from sample to sample: to open one costs more than to read it.
//!
//! A descriptor of a file of a process keeps naming that process: after its end reads fail (`ESRCH`), and never show a stranger
//! with the same PID. Files outside procfs and cgroupfs, those of a recording, do not change in place: they are opened anew.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{pread, retry_on_intr};
use rustix::process::{Resource, getrlimit};

/// More than any file that we keep.
const FILE_LIMIT: usize = 1 << 20;

/// So many descriptors are kept at most, and no more than half of what this process may have.
const MOST_KEPT: u64 = 4096;

/// `PROC_SUPER_MAGIC`, `CGROUP_SUPER_MAGIC` and `CGROUP2_SUPER_MAGIC` of `linux/magic.h`.
const KERNEL_FILE_SYSTEMS: [i64; 3] = [0x9fa0, 0x0027_e0eb, 0x6367_7270];

/// Opens files and reads them into one buffer.
#[derive(Debug)]
pub(crate) struct Keeper {
    buffer: Vec<u8>,
    /// How many more descriptors may be kept.
    room: u64,
}

/// One file.
#[derive(Debug)]
pub(crate) struct Kept {
    file: Option<OwnedFd>,
    path: PathBuf,
}

impl Keeper {
    pub(crate) fn new() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(MOST_KEPT);
        Self {
            buffer: vec![0; 16 << 10],
            room: (limit / 2).min(MOST_KEPT),
        }
    }

    /// Returns the content of a file that the kernel forms in one piece; see `Reader::read_record`.
    pub(crate) fn read(&mut self, kept: &mut Kept) -> io::Result<&[u8]> {
        let opened;
        let file = if let Some(file) = &kept.file {
            file
        } else {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let open = || openat(CWD, &kept.path, flags, Mode::empty());
            opened = retry_on_intr(open)?;
            if self.room > 0 && is_of_the_kernel(&opened) {
                self.room -= 1;
                kept.file.insert(opened)
            } else {
                &opened
            }
        };
        loop {
            let read = retry_on_intr(|| pread(file, &mut self.buffer[..], 0))?;
            if read < self.buffer.len() {
                return Ok(&self.buffer[..read]);
            }
            if read >= FILE_LIMIT {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            self.buffer.resize(read * 2, 0);
        }
    }

    /// Closes `kept`.
    pub(crate) fn forget(&mut self, kept: Kept) {
        let Kept { file, .. } = kept;
        self.room += u64::from(file.is_some());
    }
}

impl Kept {
    /// Returns the file at `path`, which is not opened yet.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { file: None, path }
    }

    /// Returns the file `name` below `directory`.
    pub(crate) fn below(directory: &Path, name: &str) -> Self {
        Self::at(directory.join(name))
    }
}

/// Whether the kernel forms the content of `file` when it is read.
pub(crate) fn is_of_the_kernel(file: &OwnedFd) -> bool {
    let kind = rustix::fs::fstatfs(file).map(|it| it.f_type);
    kind.is_ok_and(|kind| KERNEL_FILE_SYSTEMS.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_kernel_stays_open_and_reads_anew() {
        let mut keeper = Keeper::new();
        let room = keeper.room;
        let mut kept = Kept::at("/proc/self/stat".into());
        let first = keeper.read(&mut kept).unwrap().to_vec();
        assert!(kept.file.is_some());
        assert_eq!(keeper.room, room - 1);
        assert!(first.starts_with(std::process::id().to_string().as_bytes()));
        assert!(!keeper.read(&mut kept).unwrap().is_empty());
        keeper.forget(kept);
        assert_eq!(keeper.room, room);
    }

    #[test]
    fn a_file_of_a_recording_is_opened_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let mut kept = Kept::below(directory.path(), "stat");
        let mut keeper = Keeper::new();
        assert!(keeper.read(&mut kept).is_err());
        for text in ["one", "a much longer text"] {
            std::fs::remove_file(&kept.path).ok();
            std::fs::write(&kept.path, text).unwrap();
            assert_eq!(keeper.read(&mut kept).unwrap(), text.as_bytes());
        }
        assert!(kept.file.is_none());
    }

    #[test]
    fn the_file_of_a_process_that_ended_is_no_strangers() {
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        let mut kept = Kept::at(format!("/proc/{}/stat", child.id()).into());
        let mut keeper = Keeper::new();
        keeper.read(&mut kept).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let error = keeper.read(&mut kept).unwrap_err();
        assert_eq!(crate::error::gap_code(&error), model::GapCode::Vanished);
    }

    #[test]
    fn without_room_a_file_is_opened_each_time() {
        let mut keeper = Keeper::new();
        keeper.room = 0;
        let mut kept = Kept::at("/proc/self/stat".into());
        keeper.read(&mut kept).unwrap();
        assert!(kept.file.is_none());
    }
}
