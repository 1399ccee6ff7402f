//! Which program image a process runs: what tells a kept handle from a stale one after exec or PID reuse.
//!
//! The PID and start time stay across exec, and a program may exec itself, so the executable and the address of the
//! stack (random at each exec) belong to it.

use std::io;
use std::path::PathBuf;

use model::ProcessId;

use crate::proc::reader::read_record;

/// The parts of `/proc/PID/stat` that stack reading needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    /// Field 3: one letter.
    pub(super) state: char,
    /// Field 20: how many threads it has.
    pub(super) thread_count: u64,
    /// Field 22: clock ticks from boot to its start.
    pub(super) start_time_ticks: u64,
    /// Field 28: the bottom of its stack; 0 where the kernel does not tell us.
    pub(super) stack_start: u64,
}

/// One program image of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    /// The process.
    pub(super) process: ProcessId,
    /// The target of `/proc/PID/exe`.
    pub(super) exe: PathBuf,
    stack_start: u64,
}

/// Why there is no image to read.
#[derive(Debug)]
pub(super) enum NoImage {
    /// The process has ended; with what is left of it.
    Ended(&'static str),
    /// The PID names another process now.
    Reused,
    /// It has no executable: a kernel thread.
    Kernel,
    /// The kernel's answer.
    Io(io::Error),
}

impl Image {
    /// Looks at `process` now.
    pub(super) fn of(process: ProcessId) -> Result<(Image, Stat), NoImage> {
        let stat = stat(process.pid).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => NoImage::Ended("it has ended"),
            _ if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
                NoImage::Ended("it has ended")
            }
            _ => NoImage::Io(error),
        })?;
        if stat.start_time_ticks != process.start_time_ticks {
            return Err(NoImage::Reused);
        }
        if matches!(stat.state, 'Z' | 'X' | 'x') {
            return Err(NoImage::Ended("it is a zombie: its memory is gone"));
        }
        let exe = std::fs::read_link(format!("/proc/{}/exe", process.pid)).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                NoImage::Kernel
            } else {
                NoImage::Io(error)
            }
        })?;
        let image = Image {
            process,
            exe,
            stack_start: stat.stack_start,
        };
        Ok((image, stat))
    }
}

/// Reads `/proc/PID/stat`.
pub(super) fn stat(pid: i32) -> io::Result<Stat> {
    let bytes = read_record(&format!("/proc/{pid}/stat"))?;
    parse_stat(&bytes)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "stat does not parse"))
}

/// Returns the state letter of a thread when its name holds a line break, which py-spy does not read correctly.
pub(super) fn state_under_odd_name(pid: i32, tid: u64) -> Option<char> {
    let bytes = read_record(&format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    let close = bytes.iter().rposition(|&byte| byte == b')')?;
    bytes[..close].contains(&b'\n').then_some(())?;
    parse_stat(&bytes).map(|stat| stat.state)
}

/// Returns whether any thread of `pid` was running; absent where it cannot be told.
pub(super) fn any_thread_runs(pid: i32) -> Option<bool> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let runs = tasks.flatten().any(|task| {
        std::fs::read(task.path().join("stat"))
            .ok()
            .and_then(|bytes| parse_stat(&bytes))
            .is_some_and(|stat| stat.state == 'R')
    });
    Some(runs)
}

/// Parses the text of `stat`; the name may hold anything, so fields are counted from the last `)`.
fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let close = bytes.iter().rposition(|&byte| byte == b')')?;
    let fields: Vec<&str> = std::str::from_utf8(bytes.get(close + 1..)?)
        .ok()?
        .split_ascii_whitespace()
        .collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        thread_count: number(20)?,
        start_time_ticks: number(22)?,
        stack_start: number(28)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "S 1 7 7 0 -1 4194304 1 0 0 0 5 6 0 0 20 0 3 0 56786 1 2 3 4 5 140721 0 0";

    #[test]
    fn a_name_with_brackets_spaces_and_line_breaks_does_not_shift_the_fields() {
        let text = [b"7 (a) R 1\n\xff(x) " as &[u8], REST.as_bytes()].concat();
        let stat = parse_stat(&text).unwrap();
        assert_eq!(stat.state, 'S');
        assert_eq!(stat.thread_count, 3);
        assert_eq!(stat.start_time_ticks, 56_786);
        assert_eq!(stat.stack_start, 140_721);
    }

    #[test]
    fn a_cut_stat_is_no_stat() {
        let last_field = REST.find("140721").unwrap();
        for end in 0..last_field {
            assert_eq!(
                parse_stat(format!("7 (x) {}", &REST[..end]).as_bytes()),
                None
            );
        }
    }

    #[test]
    fn our_own_image_is_ours_until_the_start_time_differs() {
        let pid = rustix::process::getpid().as_raw_pid();
        let start_time_ticks = stat(pid).unwrap().start_time_ticks;
        let process = ProcessId {
            pid,
            start_time_ticks,
        };
        let (image, _) = Image::of(process).unwrap();
        assert_eq!(image.exe, std::env::current_exe().unwrap());
        let other = ProcessId {
            start_time_ticks: start_time_ticks + 1,
            ..process
        };
        assert!(matches!(Image::of(other), Err(NoImage::Reused)));
    }
}
