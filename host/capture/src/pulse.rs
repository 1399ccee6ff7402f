//! Whether threads have run since they were last read: the first thing that a capture reads of each.
//!
//! `schedstat` counts nanoseconds and turns on a processor. While a thread sleeps the figures are exact and do not move;
//! so between two equal ones it has not run, and stands where it stood. Two things make that hold:
//!
//! - *The state is read too, and before.* A thread that was woken and not yet given a processor has the figures it slept
//!   with, and is what one wants to see of a machine that is too small. The figures of one that runs are brought up to date
//!   only by a tick or a switch. Both are in state R, and of R nothing is taken over. Read in this order, state and figures
//!   are true of one instant: that at which the state was read.
//! - *What is compared was read before what is taken over.* A thread that ran between the two has moved on since.
//!
//! `stat` is the cheapest file with the state, and also has the time at which the thread began (a TID is used again) and the
//! bottom of the stack, which every exec chooses anew. It costs 7 microseconds a thread, `schedstat` 5; the three files that
//! need not be read cost 25, the Python stack several hundred.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use model::ProcessId;

use crate::error::{gap_code, malformed};
use crate::proc::reader::open_process;
use crate::proc::{Reader, Stat, schedstat, stat, text};

/// More threads of one process than this are counted, but not read.
pub(crate) const MOST_THREADS: usize = 4096;

/// What two looks at a thread have in common between which it has not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    count: Count,
    start_stack: u64,
    start_time_ticks: u64,
}

/// What moves when a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    /// Exact to the nanosecond while it sleeps.
    Schedstat([u64; 3]),
    /// Context switches: a thread cannot go to sleep without one.
    Switches([u64; 2]),
}

/// What is read first of a thread.
#[derive(Debug)]
pub(crate) struct Pulse {
    pub(crate) schedstat: io::Result<String>,
    pub(crate) stat: io::Result<Stat>,
    pub(crate) tid: i32,
    count: Option<Count>,
}

/// What is read first of a process.
#[derive(Debug)]
pub(crate) struct Pulses {
    /// How many threads there were beyond those that are read.
    pub(crate) beyond: usize,
    /// Its threads, in the order of [`place`].
    pub(crate) threads: Vec<Pulse>,
}

/// The marks of all threads of a process, none of which ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rest(Vec<(i32, Mark)>);

impl Pulse {
    /// Returns its mark if it sleeps; nothing if it runs, waits for a processor or has ended, and where that or its mark cannot
    /// be told.
    pub(crate) fn rest(&self) -> Option<Mark> {
        let stat = self.stat.as_ref().ok()?;
        is_resting(stat.state).then_some(Mark {
            count: self.count?,
            start_stack: stat.start_stack,
            start_time_ticks: stat.start_time_ticks,
        })
    }

    /// Whether `stat`, read later under the same TID, is of another thread.
    pub(crate) fn is_other(&self, stat: &Stat) -> bool {
        let known = self.stat.as_ref();
        known.is_ok_and(|known| known.start_time_ticks != stat.start_time_ticks)
    }
}

impl Pulses {
    /// Returns the mark of the thread `tid`, if it sleeps.
    pub(crate) fn rest_of(&self, tid: i32) -> Option<Mark> {
        let mut threads = self.threads.iter();
        threads.find(|pulse| pulse.tid == tid)?.rest()
    }

    /// Returns the marks of all threads, if all sleep.
    pub(crate) fn rest(&self) -> Option<Rest> {
        if self.beyond > 0 || self.threads.is_empty() {
            return None;
        }
        let threads = self.threads.iter();
        let marks = threads.map(|pulse| Some((pulse.tid, pulse.rest()?)));
        marks.collect::<Option<_>>().map(Rest)
    }
}

/// Whether a thread in this state neither runs nor is about to. A zombie never will: a main thread may end before others.
/// One that a debugger has stopped (`t`) can be moved by it without running.
pub(crate) fn is_resting(state: char) -> bool {
    !matches!(state, 'R' | 'X' | 'x' | 't')
}

/// By this the threads of a process are in order: the main thread first, then by TID. Where the kernel has begun anew with its numbers
/// the main thread has not the lowest one.
pub(crate) fn place(pid: i32, tid: i32) -> (bool, i32) {
    (tid != pid, tid)
}

/// Reads the pulses of `processes`.
pub(crate) fn read(
    proc: &Path,
    processes: &[ProcessId],
    reader: &mut Reader,
) -> BTreeMap<ProcessId, io::Result<Pulses>> {
    let processes = processes.iter();
    processes
        .map(|&id| (id, of_process(proc, id, reader)))
        .collect()
}

fn of_process(proc: &Path, id: ProcessId, reader: &mut Reader) -> io::Result<Pulses> {
    let directory = open_process(proc, id.pid)?;
    let (task, mut tids) = reader.numbers(directory.as_fd(), "task")?;
    tids.sort_unstable_by_key(|&tid| place(id.pid, tid));
    let beyond = tids.len().saturating_sub(MOST_THREADS);
    let tids = tids.into_iter().take(MOST_THREADS);
    let mut threads: Vec<Pulse> = tids
        .filter_map(|tid| of_thread(task.as_fd(), tid, reader))
        .collect();
    // Another process may have the PID by now; that is found out later, and nothing of it is taken for ours.
    let is_ours = |pulse: &Pulse| {
        let stat = pulse.stat.as_ref();
        pulse.tid == id.pid && stat.is_ok_and(|stat| stat.start_time_ticks == id.start_time_ticks)
    };
    if !threads.iter().any(is_ours) {
        for pulse in &mut threads {
            pulse.count = None;
        }
    }
    Ok(Pulses { beyond, threads })
}

/// Returns the pulse of a thread; nothing if it ended since it was listed in the directory `task`.
pub(crate) fn of_thread(task: BorrowedFd<'_>, tid: i32, reader: &mut Reader) -> Option<Pulse> {
    let stat = reader.read_record(task, &format!("{tid}/stat"));
    let stat = stat.and_then(|content| stat::parse(content).ok_or_else(malformed));
    if matches!(&stat, Err(error) if gap_code(error) == model::GapCode::Vanished) {
        return None;
    }
    let mut count = None;
    let schedstat = reader
        .read_record(task, &format!("{tid}/schedstat"))
        .map(|content| {
            count = schedstat::parse(content).map(Count::Schedstat);
            text::line(content)
        });
    if count.is_none() {
        let status = reader.read_record(task, &format!("{tid}/status"));
        let switches = status.ok().and_then(schedstat::switches);
        count = switches.map(Count::Switches);
    }
    Some(Pulse {
        schedstat,
        stat,
        tid,
        count,
    })
}
