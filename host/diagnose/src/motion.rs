//! Whether a process gets on, from two or more snapshots: step clock, processor time, bytes, faults, stacks.

mod calls;
mod heard;
mod round;
mod seen;
mod track;

use std::collections::HashMap;
use std::time::Duration;

use model::{Process, ProcessId, SharedFrame, Snapshot, Thread, Trigger};

use crate::case::{main_thread, trace_of};
use crate::python::{is_deeper, same_place};
use crate::wait::{self, Wait};
use calls::{is_of_library, is_seldom};
use heard::{Heard, heard, hears};
pub(crate) use seen::Seen;
pub(crate) use track::Tracks;

/// What a process did over the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Motion {
    /// Too little was seen.
    Unknown,
    /// No thread of it ran at all.
    Still,
    /// It woke now and then, and is where it was: it polls or sleeps.
    Idle,
    /// It used a processor all the time, and is where it was.
    Spins,
    /// It got on.
    Advances(Sign),
}

/// What showed that a process got on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// A number that a frame counts.
    Step(usize),
    /// Bytes that it read or wrote.
    Bytes,
    /// Memory that it touched for the first time.
    Memory,
    /// It is elsewhere in its program.
    Stack,
    /// Processor time of a program whose stack is not seen.
    Processor,
    /// Bytes from a connection that leads out of the task, few as they may be.
    Heard,
}

/// Who wakes but now and then in it pauses.
const SECOND: Duration = Duration::from_secs(1);
/// A process that uses this share of a processor is busy.
const BUSY: f64 = 0.08;
/// Less is what polling takes.
const POLLING: f64 = 0.03;
/// Bytes a second that are more than a heartbeat.
const BYTES: f64 = 1024.0;
/// Pages a second that are more than a loop takes which allocates nothing.
const FAULTS: f64 = 200.0;

/// Returns what each process of the newest snapshot did. `tracks` is what is known of them from snapshots that are not among
/// these, the oldest of which comes after them or is the last of them.
pub(crate) fn of_all(
    snapshots: &[&Snapshot],
    window: &[usize],
    tracks: &Tracks,
    unit: Duration,
) -> HashMap<ProcessId, Seen> {
    let mut seen: HashMap<ProcessId, Vec<(usize, &Process)>> = HashMap::new();
    for (position, snapshot) in snapshots.iter().enumerate() {
        for process in &snapshot.processes {
            seen.entry(process.identity)
                .or_default()
                .push((position, process));
        }
    }
    let newest = snapshots.len() - 1;
    seen.retain(|_, views| views[views.len() - 1].0 == newest);
    let heard = heard(snapshots[newest]);
    let at = |position: usize| snapshots[position].capture.started_at;
    let seen = seen.into_iter().map(|(identity, all)| {
        let in_window = all.iter().filter(|(position, _)| window.contains(position));
        let views: Vec<(usize, &Process)> = in_window.copied().collect();
        let (main_ran, stands) = main(&views);
        let span = at(newest).since(at(views[0].0));
        let mut track = tracks.of(identity, begins(snapshots, all[0].0));
        for (position, process) in &all {
            track.see(at(*position), process);
        }
        let seen = Seen {
            motion: of(snapshots, &views, &heard),
            written_bytes: counted_more(&views, "wchar"),
            write_calls: counted_more(&views, "syscw"),
            main_ran,
            main_ran_always: ran_always(&views),
            lately: of(snapshots, &views[views.len().saturating_sub(2)..], &heard),
            stands,
            same_for: track.call.intervals,
            same: (track.call.time, track.call.ran),
            is_of_library: is_of_library(&views),
            is_young: track.is_young(unit),
            counts: track.counts(),
            is_seldom: is_seldom(&views, span, unit),
            pauses: is_seldom(&views, span, SECOND),
            keeps_lock: (track.holder.time, track.holder.ran),
            unit,
            still_for: still_for(&all),
            main_still_for: track.still_intervals,
            main_still: track.still,
            main_still_before: track.longest_still,
            step_time: track.step_time(),
            step_since: track.step_since(),
        };
        (identity, seen)
    });
    seen.collect()
}

/// Whether a process began shortly before the snapshot in which it is seen first: it was not in the one before that, or the task
/// began with it.
fn begins(snapshots: &[&Snapshot], position: usize) -> bool {
    let first = snapshots[position];
    let before = position.checked_sub(1).map(|before| snapshots[before]);
    // Long runs are not read in full.
    let is_next =
        |before: &Snapshot| before.capture.sequence.checked_add(1) == Some(first.capture.sequence);
    first.capture.trigger == Some(Trigger::Start) || before.is_some_and(is_next)
}

/// How many intervals up to now no thread ran.
fn still_for(views: &[(usize, &Process)]) -> usize {
    let last = views[views.len() - 1].1;
    if last.proc.threads.is_empty() {
        return 0;
    }
    let earlier = views[..views.len() - 1].iter().rev();
    earlier
        .take_while(|(_, process)| !ran(process, last))
        .count()
}

/// Whether the main thread ran in the window, and whether it is where it was in all of it.
fn main(views: &[(usize, &Process)]) -> (bool, bool) {
    let threads: Option<Vec<&Thread>> = views
        .iter()
        .map(|(_, process)| main_thread(process))
        .collect();
    let Some(threads) = threads.filter(|threads| threads.len() > 1) else {
        return (true, false);
    };
    let last = threads[threads.len() - 1];
    let ran = thread_ran(threads[0], last);
    let stacks = stacks(views, last.tid);
    let stands = match stacks.last() {
        Some(now) if stacks.len() == views.len() => {
            stacks.iter().all(|stack| same_place(stack, now))
        }
        _ => threads
            .iter()
            .all(|thread| thread.call == last.call && thread.state == last.state),
    };
    (ran, stands || !ran)
}

/// Whether the main thread ran in each interval of the window; yes where that is not known.
fn ran_always(views: &[(usize, &Process)]) -> bool {
    let mut pairs = views.windows(2);
    pairs.all(|pair| {
        let threads = main_thread(pair[0].1).zip(main_thread(pair[1].1));
        threads.is_none_or(|(one, other)| thread_ran(one, other))
    })
}

fn of(snapshots: &[&Snapshot], views: &[(usize, &Process)], heard: &Heard<'_>) -> Motion {
    let (Some(first), Some(last)) = (views.first(), views.last()) else {
        return Motion::Unknown;
    };
    let at = |position: usize| snapshots[position].capture.started_at;
    let seconds = at(last.0).since(at(first.0)).as_secs_f64();
    if views.len() < 2 || seconds <= 0.0 {
        return Motion::Unknown;
    }
    let (first, last) = (first.1, last.1);
    if let Some(step) = last.steps.iter().position(|step| {
        let earlier = views[..views.len() - 1].iter();
        let mut earlier = earlier.flat_map(|(_, process)| &process.steps);
        earlier.any(|other| other.is_of(step) && other.value != step.value)
    }) {
        return Motion::Advances(Sign::Step(step));
    }
    if last.proc.threads.is_empty() {
        return Motion::Unknown;
    }
    if !ran(first, last) {
        return Motion::Still;
    }
    let per_second = |count: Option<u64>| count.map(|count| as_float(count) / seconds);
    let ticks = |process: &Process| {
        Some(
            process
                .proc
                .utime_ticks?
                .saturating_add(process.proc.stime_ticks?),
        )
    };
    let wants = wants_a_processor(views, seconds);
    let hz = snapshots[snapshots.len() - 1]
        .machine
        .clock_ticks_per_second
        .max(1);
    let share = per_second(grown(ticks(first), ticks(last))).map(|ticks| ticks / as_float(hz));
    let bytes = per_second(grown(bytes(first), bytes(last))).unwrap_or(0.0);
    let faults = per_second(grown(first.proc.minor_faults, last.proc.minor_faults)).unwrap_or(0.0);
    let moved = moved(views);
    match share {
        _ if bytes >= BYTES => Motion::Advances(Sign::Bytes),
        Some(share) if share >= BUSY || wants => match moved {
            Some(true) => Motion::Advances(Sign::Stack),
            _ if faults >= FAULTS => Motion::Advances(Sign::Memory),
            Some(false) => Motion::Spins,
            None => Motion::Advances(Sign::Processor),
        },
        // Of a process that hardly runs, threads in the background that sleep here and there are no progress.
        Some(share) if moved == Some(true) && (share >= POLLING || main_moved(views)) => {
            Motion::Advances(Sign::Stack)
        }
        _ if hears(last, heard, seconds) => Motion::Advances(Sign::Heard),
        Some(_) => Motion::Idle,
        None => Motion::Unknown,
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates have three digits")]
fn as_float(count: u64) -> f64 {
    count as f64
}

fn grown(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after?.checked_sub(before?)
}

fn bytes(process: &Process) -> Option<u64> {
    Some(io(process, "rchar")?.saturating_add(io(process, "wchar")?))
}

/// A number of `/proc/PID/io`.
fn io(process: &Process, key: &str) -> Option<u64> {
    process.proc.io.get(key)?.parse().ok()
}

/// By how much a number of `/proc/PID/io` has grown; 0 where that is not known.
fn counted_more(views: &[(usize, &Process)], key: &str) -> u64 {
    let ends = views.first().zip(views.last());
    let more = ends.and_then(|((_, first), (_, last))| grown(io(first, key), io(last, key)));
    more.unwrap_or(0)
}

/// Whether any thread ran in between, as far as the kernel counts it; yes where that is not known.
fn ran(first: &Process, last: &Process) -> bool {
    let threads = &first.proc.threads;
    let ran = |(index, thread): (usize, &Thread)| {
        let is_it = |other: &&Thread| other.tid == thread.tid;
        // Where none has come or gone it is at the same place.
        let earlier = threads.get(index).filter(is_it);
        let earlier = earlier.or_else(|| threads.iter().find(is_it));
        earlier.is_none_or(|earlier| thread_ran(earlier, thread))
    };
    last.proc.threads.iter().enumerate().any(ran)
}

/// Whether a thread was given a processor between two views.
pub(crate) fn thread_ran(earlier: &Thread, later: &Thread) -> bool {
    if earlier.schedstat.is_some() && earlier.schedstat == later.schedstat {
        return false;
    }
    match (runs(earlier), runs(later)) {
        (Some(one), Some(other)) => one != other,
        _ => true,
    }
}

/// How long and how often a thread was given a processor, as the kernel writes it: the first and third number of
/// `schedstat`. Waiting for a processor is no running.
fn runs(thread: &Thread) -> Option<(&str, &str)> {
    let mut parts = thread.schedstat.as_ref()?.split_ascii_whitespace();
    Some((
        parts.next().unwrap_or_default(),
        parts.nth(1).unwrap_or_default(),
    ))
}

/// How long a thread ran: the first number of `schedstat`.
fn ran_for(thread: &Thread) -> Option<Duration> {
    let text = thread.schedstat.as_deref()?;
    let ran = text.split_ascii_whitespace().next()?;
    ran.parse().ok().map(Duration::from_nanos)
}

/// How long a thread ran or waited for a processor: all but its sleep.
fn occupied(thread: &Thread) -> Option<Duration> {
    Some(ran_for(thread)? + held_back(thread))
}

/// How long a thread has waited for a processor: the second number of `schedstat`; nothing where that is not known.
fn held_back(thread: &Thread) -> Duration {
    let text = thread.schedstat.as_deref().unwrap_or_default();
    let waited = text.split_ascii_whitespace().nth(1).map(str::parse);
    waited.map_or(Duration::ZERO, |it| Duration::from_nanos(it.unwrap_or(0)))
}

/// Whether the main thread is elsewhere in its program.
fn main_moved(views: &[(usize, &Process)]) -> bool {
    let stacks = stacks(views, views[views.len() - 1].1.pid);
    stacks.len() > 1 && is_elsewhere(&stacks) && !deepens(views)
}

/// Whether the main thread sleeps, and is deeper each time in functions that call themselves at the same lines: who tries again so is
/// not elsewhere.
fn deepens(views: &[(usize, &Process)]) -> bool {
    let last = views[views.len() - 1].1;
    let stacks = stacks(views, last.pid);
    let sleeps = main_thread(last).is_some_and(|thread| wait::of(thread) == Wait::Sleep);
    let mut pairs = stacks.windows(2);
    sleeps && stacks.len() == views.len() && pairs.all(|pair| is_deeper(pair[0], pair[1]))
}

/// Whether a thread was running or waiting for a processor in all views and most of the time: on a busy machine it may get
/// little of one.
fn wants_a_processor(views: &[(usize, &Process)], seconds: f64) -> bool {
    let last = views[views.len() - 1].1;
    last.proc.threads.iter().any(|thread| {
        let of = |process: &'_ Process| {
            let mut threads = process.proc.threads.iter();
            threads.find(|other| other.tid == thread.tid).cloned()
        };
        let all: Option<Vec<Thread>> = views.iter().map(|(_, process)| of(process)).collect();
        let Some(all) = all.filter(|all| all.iter().all(|it| it.state == Some('R'))) else {
            return false;
        };
        let nanoseconds = |thread: &Thread| {
            let text = thread.schedstat.as_ref()?;
            let mut parts = text.split_ascii_whitespace().map(str::parse::<u64>);
            Some(parts.next()?.ok()?.saturating_add(parts.next()?.ok()?))
        };
        let grown = grown(nanoseconds(&all[0]), nanoseconds(thread));
        grown.is_some_and(|grown| as_float(grown) / 1e9 >= 0.5 * seconds)
    })
}

/// Whether a thread of it is elsewhere in its program: more than a quarter of the views are not at the place of most.
/// Nothing where no stack was seen twice.
fn moved(views: &[(usize, &Process)]) -> Option<bool> {
    let last = views[views.len() - 1].1;
    let mut compared = None;
    for thread in &last.proc.threads {
        let stacks = stacks(views, thread.tid);
        if stacks.len() < 2 {
            continue;
        }
        if is_elsewhere(&stacks) && (thread.tid != last.pid || !deepens(views)) {
            return Some(true);
        }
        compared = Some(false);
    }
    compared
}

fn stacks<'a>(views: &[(usize, &'a Process)], tid: i32) -> Vec<&'a [SharedFrame]> {
    let traces = views
        .iter()
        .filter_map(|(_, process)| trace_of(process, tid));
    let stacks = traces.map(|trace| trace.frames.as_slice());
    stacks.filter(|frames| !frames.is_empty()).collect()
}

/// Whether more than a quarter of the stacks are not where most are.
fn is_elsewhere(stacks: &[&[SharedFrame]]) -> bool {
    let alike = |stack: &&[SharedFrame]| {
        stacks
            .iter()
            .filter(|other| same_place(stack, other))
            .count()
    };
    let most = stacks.iter().map(alike).max().unwrap_or(0);
    most * 4 < stacks.len() * 3
}
