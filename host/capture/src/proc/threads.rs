//! `/proc/PID/task/TID`: state, name, ticks and what the kernel says about where each thread waits.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use model::{Detail, Gap, GapCode, Thread};

use super::reader::open_directory;
use super::{Reader, Stat, escaped, stat, text};
use crate::call;
use crate::error::{gap_code, malformed};
use crate::gaps::GapList;

/// More threads than this are counted, but not read.
const LIMIT: usize = 4096;

/// Returns the threads of the process in `directory`, by tid.
pub(crate) fn read(
    reader: &mut Reader,
    directory: BorrowedFd<'_>,
    detail: Detail,
    gaps: &mut GapList,
) -> Vec<Thread> {
    let listed = reader.numbers(directory, "task");
    let Some(tids) = gaps.keep("task", listed) else {
        return Vec::new();
    };
    if let Some(beyond) = tids.len().checked_sub(LIMIT + 1) {
        let detail = format!("{} threads; the first {LIMIT} were read", tids.len());
        let mut gap = Gap::new("task", GapCode::Truncated).with_detail(detail);
        gap.count = u32::try_from(beyond + 1).unwrap_or(u32::MAX);
        gaps.add(gap);
    }
    let Some(task) = gaps.keep("task", open_directory(directory, "task")) else {
        return Vec::new();
    };
    let mut threads = Threads {
        detail,
        reader,
        task,
        path: String::new(),
        gaps,
    };
    let tids = tids.into_iter().take(LIMIT);
    tids.filter_map(|tid| threads.one(tid)).collect()
}

struct Threads<'a> {
    detail: Detail,
    reader: &'a mut Reader,
    task: OwnedFd,
    path: String,
    gaps: &'a mut GapList,
}

impl Threads<'_> {
    /// Returns the thread, or nothing if it ended since it was listed.
    fn one(&mut self, tid: i32) -> Option<Thread> {
        let stat = self
            .file(tid, "stat")
            .and_then(|bytes| stat::parse(bytes).ok_or_else(malformed));
        let stat = match stat {
            Err(error) if gap_code(&error) == GapCode::Vanished => return None,
            other => self.gaps.keep("task/*/stat", other),
        };
        let state = stat.as_ref().map(|stat| stat.state);
        let name = match &stat {
            // In `stat` the kernel writes a newline as `\n` and a backslash as `\\`; `comm` has the bytes.
            Some(stat) if !stat.comm.contains(&b'\\') => Some(stat.comm.clone()),
            _ => self.name(tid),
        };
        let syscall = self.file(tid, "syscall").map(text::line);
        let refused = matches!(&syscall, Err(error) if gap_code(error) == GapCode::Denied);
        let syscall = self.gaps.keep("task/*/syscall", syscall);
        let wchan = self.text(tid, "wchan", "task/*/wchan");
        let wchan = self.unmasked(wchan, state, refused);
        let (kernel_stack, schedstat) = self.detail(tid);
        let start_stack = stat.as_ref().map_or(0, |stat| stat.start_stack);
        Some(Thread {
            call: syscall
                .as_ref()
                .and_then(|line| call::decode(line, start_stack)),
            comm: name
                .as_ref()
                .map(|name| String::from_utf8_lossy(name).into_owned()),
            comm_escaped: name.as_deref().and_then(escaped::escaped),
            kernel_stack,
            major_faults: stat.as_ref().and_then(|stat| stat.major_faults),
            minor_faults: stat.as_ref().and_then(|stat| stat.minor_faults),
            processor: stat.as_ref().and_then(|stat| stat.processor),
            schedstat,
            scheduling: stat.as_ref().and_then(Stat::scheduling),
            state,
            stime_ticks: stat.as_ref().map(|stat| stat.stime_ticks),
            syscall,
            tid,
            utime_ticks: stat.as_ref().map(|stat| stat.utime_ticks),
            wchan,
        })
    }

    /// Returns the lines of `stack` and `schedstat`, unless they are left out.
    fn detail(&mut self, tid: i32) -> (Vec<String>, Option<String>) {
        if self.detail >= Detail::WithoutThreadDetail {
            return (Vec::new(), None);
        }
        let kernel_stack = self.file(tid, "stack").map(text::lines);
        let kernel_stack = self.gaps.keep("task/*/stack", kernel_stack);
        let schedstat = self.text(tid, "schedstat", "task/*/schedstat");
        (kernel_stack.unwrap_or_default(), schedstat)
    }

    /// To whom `syscall` is refused, `wchan` opens but is "0" whatever the thread does: of one that does not run
    /// this is unknown, and not "running".
    fn unmasked(
        &mut self,
        wchan: Option<String>,
        state: Option<char>,
        refused: bool,
    ) -> Option<String> {
        if refused && state != Some('R') && wchan.as_deref() == Some("0") {
            self.gaps.add(Gap::new("task/*/wchan", GapCode::Denied));
            return None;
        }
        wchan
    }

    fn name(&mut self, tid: i32) -> Option<Vec<u8>> {
        let content = self.file(tid, "comm").map(|content| {
            let name = content.strip_suffix(b"\n").unwrap_or(content);
            name.to_vec()
        });
        self.gaps.keep("task/*/comm", content)
    }

    fn text(&mut self, tid: i32, name: &str, what: &str) -> Option<String> {
        let line = self.file(tid, name).map(text::line);
        self.gaps.keep(what, line)
    }

    fn file(&mut self, tid: i32, name: &str) -> io::Result<&[u8]> {
        use std::fmt::Write;
        self.path.clear();
        write!(self.path, "{tid}/{name}").expect("writing to a String cannot fail");
        self.reader.read(self.task.as_fd(), &self.path)
    }
}
