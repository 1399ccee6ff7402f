//! Opens and reads kernel files relative to a kept directory descriptor, into one buffer that is used again.
//!
//! A descriptor of `/proc/PID` keeps naming the process it was opened for: after that one's end reads fail, and
//! never show a stranger with the same PID. Sizes in `/proc` are 0 and are not looked at.

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, RawDir, openat, readlinkat};
use rustix::io::retry_on_intr;

/// No kernel file that we read whole is near this; a larger one is refused.
const FILE_LIMIT: usize = 1 << 20;

/// In how many pieces a file may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pieces {
    One,
    Many,
}

/// Reads files and directories; keep one a thread.
pub(crate) struct Reader {
    buffer: Vec<u8>,
    entries: Vec<MaybeUninit<u8>>,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self {
            buffer: vec![0; 16 << 10],
            entries: vec![MaybeUninit::uninit(); 8 << 10],
        }
    }

    /// Returns the whole content of `path` below `directory`.
    pub(crate) fn read(&mut self, directory: BorrowedFd<'_>, path: &str) -> io::Result<&[u8]> {
        let (content, more) = self.read_up_to(directory, path, FILE_LIMIT)?;
        if more {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(content)
    }

    /// Returns the whole content of `path` below `directory`, a file that the kernel forms in one piece, for one read fewer than
    /// [`Reader::read`].
    ///
    /// Such files are those of `single_open` (`fs/seq_file.c`): they have one record, and a read copies all of it that the
    /// buffer has room for. So a read that leaves room has returned the end. In `fs/proc/base.c` they are the entries `ONE` (`stat`,
    /// `status`, `limits`, `io`, `cgroup`, `schedstat`, `syscall`, `wchan`, `stack`), and `comm`; in `fs/proc/fd.c` each file of
    /// `fdinfo`. `children`, `maps`, `mountinfo`, `cgroup.procs` and the tables of `net` have many records, of which a read returns as many as
    /// fit a page; `cmdline` and `environ` are copied from memory. None of these is read so.
    pub(crate) fn read_record(
        &mut self,
        directory: BorrowedFd<'_>,
        path: &str,
    ) -> io::Result<&[u8]> {
        let (length, more) = self.fill(directory, path, FILE_LIMIT, Pieces::One)?;
        if more {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(&self.buffer[..length])
    }

    /// Returns the first `limit` bytes of `path` below `directory`, and whether there is more.
    pub(crate) fn read_up_to(
        &mut self,
        directory: BorrowedFd<'_>,
        path: &str,
        limit: usize,
    ) -> io::Result<(&[u8], bool)> {
        let (length, more) = self.fill(directory, path, limit, Pieces::Many)?;
        Ok((&self.buffer[..length], more))
    }

    /// Reads into the buffer; returns how many bytes, at most `limit`, and whether there are more.
    fn fill(
        &mut self,
        directory: BorrowedFd<'_>,
        path: &str,
        limit: usize,
        pieces: Pieces,
    ) -> io::Result<(usize, bool)> {
        let file = open(directory, path, OFlags::RDONLY)?;
        let mut filled = 0;
        while filled <= limit {
            if filled == self.buffer.len() {
                self.buffer.resize(filled * 2, 0);
            }
            let read = retry_on_intr(|| rustix::io::read(&file, &mut self.buffer[filled..]))?;
            filled += read;
            if read == 0 || (pieces == Pieces::One && filled < self.buffer.len()) {
                break;
            }
        }
        Ok((filled.min(limit), filled > limit))
    }

    /// Returns the whole content of the file at `path`.
    pub(crate) fn read_path(&mut self, path: &Path) -> io::Result<&[u8]> {
        let path = path.to_str().ok_or_else(crate::error::malformed)?;
        self.read(CWD, path)
    }

    /// Returns the entries of `path` below `directory` that are numbers, in order, and `path` opened, to read below it.
    pub(crate) fn numbers(
        &mut self,
        directory: BorrowedFd<'_>,
        path: &str,
    ) -> io::Result<(OwnedFd, Vec<i32>)> {
        let listed = open(directory, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut numbers = Vec::new();
        let mut entries = RawDir::new(listed.as_fd(), &mut self.entries);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            numbers.extend(entry.file_name().to_str().ok().and_then(parse_number));
        }
        numbers.sort_unstable();
        Ok((listed, numbers))
    }
}

/// Returns the whole content of a file that the kernel forms in one piece, by its path: what [`Reader::read_record`] does, for who keeps
/// no reader.
pub(crate) fn read_record(path: &str) -> io::Result<Vec<u8>> {
    let mut reader = Reader {
        buffer: vec![0; 4 << 10],
        entries: Vec::new(),
    };
    let length = reader.read_record(CWD, path)?.len();
    reader.buffer.truncate(length);
    Ok(reader.buffer)
}

/// Returns the target of the link `path` below `directory`.
pub(crate) fn read_link(directory: BorrowedFd<'_>, path: &str) -> io::Result<OsString> {
    let target = readlinkat(directory, path, Vec::with_capacity(64))?;
    Ok(OsString::from_vec(target.into_bytes()))
}

/// Opens the directory `path` to read files below it.
pub(crate) fn open_directory(directory: BorrowedFd<'_>, path: &str) -> io::Result<OwnedFd> {
    open(directory, path, OFlags::PATH | OFlags::DIRECTORY)
}

/// Opens the directory of the process `pid` below the root `proc`.
pub(crate) fn open_process(proc: &Path, pid: i32) -> io::Result<OwnedFd> {
    let path = proc.join(pid.to_string());
    let path = path.to_str().ok_or_else(crate::error::malformed)?;
    open_directory(CWD, path)
}

fn open(directory: BorrowedFd<'_>, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| {
        openat(directory, path, flags, Mode::empty())
    })?)
}

fn parse_number(name: &str) -> Option<i32> {
    // Only what the kernel writes: no sign, no leading zeros.
    let number: i32 = name.parse().ok()?;
    (number >= 0 && name.as_bytes()[0].is_ascii_digit()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_larger_than_the_buffer_is_read_whole() {
        let directory = tempfile::tempdir().unwrap();
        let text = "x".repeat(100_000);
        fs::write(directory.path().join("file"), &text).unwrap();
        let opened = fs::File::open(directory.path()).unwrap();
        let mut reader = Reader::new();
        assert_eq!(
            reader.read(opened.as_fd(), "file").unwrap(),
            text.as_bytes()
        );
        let (head, more) = reader.read_up_to(opened.as_fd(), "file", 10).unwrap();
        assert_eq!((head.len(), more), (10, true));
    }

    #[test]
    fn files_of_one_record_come_whole_with_one_read() {
        let own = open_process(Path::new("/proc"), std::process::id().cast_signed()).unwrap();
        let mut reader = Reader::new();
        // As little room as a record may ever leave: of a file in pieces, one read would return a part.
        for name in ["status", "limits", "cgroup", "comm"] {
            let whole = reader.read(own.as_fd(), name).unwrap().to_vec();
            for room in [1, 2, whole.len() - 1, whole.len(), whole.len() + 1] {
                reader.buffer = vec![0; room];
                let seen = reader.read_record(own.as_fd(), name).unwrap();
                let steady = |text: &[u8]| text.split(|&byte| byte == b'\n').count();
                assert_eq!(steady(seen), steady(&whole), "{name} with {room} bytes");
            }
            reader.buffer = vec![0; 16 << 10];
        }
    }

    #[test]
    fn of_a_record_that_leaves_room_no_end_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        let (mode, kind) = (Mode::RUSR | Mode::WUSR, rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(CWD, &path, kind, mode, 0).unwrap();
        // Open for writing as long as the test runs, so that there is no end.
        let mut ours = fs::File::options();
        let mut ours = ours.read(true).write(true).open(&path).unwrap();
        std::io::Write::write_all(&mut ours, b"record\n").unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut reader = Reader::new();
            let content = reader.read_record(CWD, path.to_str().unwrap());
            _ = sender.send(content.unwrap().to_vec());
        });
        let content = receiver.recv_timeout(std::time::Duration::from_mins(1));
        assert_eq!(content.unwrap(), b"record\n");
        drop(ours);
    }

    #[test]
    fn a_file_beyond_the_limit_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), vec![b'x'; FILE_LIMIT + 1]).unwrap();
        let opened = fs::File::open(directory.path()).unwrap();
        let error = Reader::new().read(opened.as_fd(), "file").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn only_numeric_entries_are_listed_and_in_order() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["10", "9", "self", "+3", "-1", "4x"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let opened = fs::File::open(directory.path()).unwrap();
        let (listed, numbers) = Reader::new().numbers(opened.as_fd(), ".").unwrap();
        assert_eq!(numbers, [9, 10]);
        assert!(Reader::new().read(listed.as_fd(), "10").is_ok());
    }
}
