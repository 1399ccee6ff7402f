//! `/proc/PID/task/TID`: state, name, ticks and what the kernel says about where each thread waits.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use model::{Detail, Gap, GapCode, Thread, Timestamp};

use super::{Reader, Stat, escaped, stat, text};
use crate::call;
use crate::error::{gap_code, malformed};
use crate::gaps::GapList;
use crate::pulse::{self, MOST_THREADS, Pulse, Pulses, is_resting};
use crate::recall::{KnownThread, Waits};

/// What the threads of one process are read with.
pub(crate) struct Threads<'a> {
    /// How much of each is read.
    pub(crate) detail: Detail,
    pub(crate) gaps: &'a mut GapList,
    /// What is known of them; replaced by what will be known in the next capture.
    pub(crate) known: &'a mut BTreeMap<i32, KnownThread>,
    /// The stamp of this capture.
    pub(crate) now: Timestamp,
    /// The process that they are of.
    pub(crate) pid: i32,
    pub(crate) reader: &'a mut Reader,
}

impl Threads<'_> {
    /// Returns the threads of the process in `directory`, the main thread first: those of `pulses`.
    pub(crate) fn read(
        mut self,
        directory: BorrowedFd<'_>,
        pulses: io::Result<Pulses>,
    ) -> Vec<Thread> {
        let mut known = std::mem::take(self.known);
        let Some(pulses) = self.gaps.keep("task", pulses) else {
            return Vec::new();
        };
        if pulses.beyond > 0 {
            let all = pulses.threads.len() + pulses.beyond;
            let detail = format!("{all} threads; the first {MOST_THREADS} were read");
            let mut gap = Gap::new("task", GapCode::Truncated).with_detail(detail);
            gap.count = u32::try_from(pulses.beyond).unwrap_or(u32::MAX);
            self.gaps.add(gap);
        }
        // Threads begin while others run: those that began since the pulses were read are not to be missed.
        let is_at_rest = pulses.beyond > 0 || pulses.rest().is_some();
        let mut threads: Vec<Thread> = pulses
            .threads
            .into_iter()
            .filter_map(|pulse| {
                let known = known.remove(&pulse.tid);
                match known.filter(|known| self.holds(known, &pulse)) {
                    Some(known) => Some(self.again(directory, pulse, known)),
                    None => self.anew(directory, pulse),
                }
            })
            .collect();
        if !is_at_rest {
            self.add_new(directory, &mut threads);
        }
        threads
    }

    /// Whether the thread has not run since, and was read in as much detail as is wanted now.
    fn holds(&self, known: &KnownThread, pulse: &Pulse) -> bool {
        pulse.rest() == Some(known.mark) && known.detail <= self.detail
    }

    fn add_new(&mut self, directory: BorrowedFd<'_>, threads: &mut Vec<Thread>) {
        // That of a process that has ended is told elsewhere.
        let Ok((task, tids)) = self.reader.numbers(directory, "task") else {
            return;
        };
        for tid in tids {
            let place = |tid| pulse::place(self.pid, tid);
            if let Err(place) = threads.binary_search_by_key(&place(tid), |it| place(it.tid))
                && threads.len() < MOST_THREADS
                && let Some(pulse) = pulse::of_thread(task.as_fd(), tid, self.reader)
                && let Some(thread) = self.anew(directory, pulse)
            {
                threads.insert(place, thread);
            }
        }
    }

    /// Returns a thread that has not run since it was read.
    fn again(&mut self, directory: BorrowedFd<'_>, pulse: Pulse, known: KnownThread) -> Thread {
        for gap in &known.gaps {
            self.gaps.add(gap.clone());
        }
        let since = known.since;
        let mut waits = known.waits.clone();
        if self.is_brief() {
            waits.kernel_stack.clear();
        }
        self.known.insert(pulse.tid, known);
        Thread {
            unchanged_since: Some(since),
            ..self.thread(directory, pulse, waits)
        }
    }

    /// Reads a thread. Nothing if it ended since it was listed.
    fn anew(&mut self, directory: BorrowedFd<'_>, mut pulse: Pulse) -> Option<Thread> {
        let mark = pulse.rest();
        let stat = self.file(directory, pulse.tid, "stat");
        let stat = stat.and_then(|bytes| stat::parse(bytes).ok_or_else(malformed));
        match &stat {
            Err(error) if gap_code(error) == GapCode::Vanished => return None,
            Ok(stat) if pulse.is_other(stat) => return None,
            _ => {}
        }
        pulse.stat = stat;
        let state = pulse.stat.as_ref().ok().map(|stat| stat.state);
        let start_stack = pulse.stat.as_ref().map_or(0, |stat| stat.start_stack);
        let process_gaps = std::mem::replace(self.gaps, GapList::of_machine());
        let waits = self.waits(directory, pulse.tid, state, start_stack);
        let gaps = std::mem::replace(self.gaps, process_gaps);
        for gap in gaps.as_slice() {
            self.gaps.add(gap.clone());
        }
        if let Some(mark) = mark
            && state.is_some_and(is_resting)
            && gaps.as_slice().iter().all(|gap| lasts(gap.code))
        {
            let known = KnownThread {
                detail: self.detail,
                gaps: gaps.as_slice().to_vec(),
                mark,
                since: self.now,
                waits: waits.clone(),
            };
            self.known.insert(pulse.tid, known);
        }
        Some(self.thread(directory, pulse, waits))
    }

    fn waits(
        &mut self,
        directory: BorrowedFd<'_>,
        tid: i32,
        state: Option<char>,
        start_stack: u64,
    ) -> Waits {
        let syscall = self.file(directory, tid, "syscall").map(text::line);
        let refused = matches!(&syscall, Err(error) if gap_code(error) == GapCode::Denied);
        let syscall = self.gaps.keep("task/*/syscall", syscall);
        let wchan = self.file(directory, tid, "wchan").map(text::line);
        let wchan = self.gaps.keep("task/*/wchan", wchan);
        let wchan = self.unmasked(wchan, state, refused);
        let kernel_stack = self.kernel_stack(directory, tid);
        Waits {
            call: syscall
                .as_ref()
                .and_then(|line| call::decode(line, start_stack)),
            kernel_stack: kernel_stack.unwrap_or_default(),
            syscall,
            wchan,
        }
    }

    fn thread(&mut self, directory: BorrowedFd<'_>, pulse: Pulse, waits: Waits) -> Thread {
        let tid = pulse.tid;
        let stat = self.gaps.keep("task/*/stat", pulse.stat);
        let name = match &stat {
            // In `stat` the kernel writes a newline as `\n` and a backslash as `\\`; `comm` has the bytes.
            Some(stat) if !stat.comm.contains(&b'\\') => Some(stat.comm.clone()),
            _ => self.name(directory, tid),
        };
        Thread {
            call: waits.call,
            comm: name
                .as_ref()
                .map(|name| String::from_utf8_lossy(name).into_owned()),
            comm_escaped: name.as_deref().and_then(escaped::escaped),
            kernel_stack: waits.kernel_stack,
            major_faults: stat.as_ref().and_then(|stat| stat.major_faults),
            minor_faults: stat.as_ref().and_then(|stat| stat.minor_faults),
            processor: stat.as_ref().and_then(|stat| stat.processor),
            schedstat: self.gaps.keep("task/*/schedstat", pulse.schedstat),
            scheduling: stat.as_ref().and_then(Stat::scheduling),
            state: stat.as_ref().map(|stat| stat.state),
            stime_ticks: stat.as_ref().map(|stat| stat.stime_ticks),
            syscall: waits.syscall,
            tid,
            unchanged_since: None,
            utime_ticks: stat.as_ref().map(|stat| stat.utime_ticks),
            wchan: waits.wchan,
        }
    }

    /// Returns the lines of `stack`, unless they are left out.
    fn kernel_stack(&mut self, directory: BorrowedFd<'_>, tid: i32) -> Option<Vec<String>> {
        if self.is_brief() {
            return None;
        }
        let kernel_stack = self.file(directory, tid, "stack").map(text::lines);
        self.gaps.keep("task/*/stack", kernel_stack)
    }

    /// Whether kernel stacks are left out.
    fn is_brief(&self) -> bool {
        self.detail >= Detail::WithoutThreadDetail
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

    fn name(&mut self, directory: BorrowedFd<'_>, tid: i32) -> Option<Vec<u8>> {
        let content = self.file(directory, tid, "comm").map(|content| {
            let name = content.strip_suffix(b"\n").unwrap_or(content);
            name.to_vec()
        });
        self.gaps.keep("task/*/comm", content)
    }

    fn file(&mut self, directory: BorrowedFd<'_>, tid: i32, name: &str) -> io::Result<&[u8]> {
        self.reader
            .read_record(directory, &format!("task/{tid}/{name}"))
    }
}

/// Whether what was not there, or was refused, is so until the thread runs again.
fn lasts(code: GapCode) -> bool {
    matches!(
        code,
        GapCode::Denied | GapCode::Unsupported | GapCode::Vanished
    )
}
