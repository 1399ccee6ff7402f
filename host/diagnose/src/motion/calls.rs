//! For how long the main thread is in one call, and whether it is Python that it runs there; for how long one thread has the
//! interpreter's lock.

use std::time::Duration;

use model::{Process, SharedFrame, StackSourceName, Timestamp};

use super::round::Round;
use super::{occupied, ran_for};
use crate::case::{main_thread, thread_index, trace_of};
use crate::python::{is_deeper, same_call, same_place};

/// The call that a main thread is in: the same functions, called from the same lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    frames: Option<Vec<SharedFrame>>,
    /// How many intervals it is in it, up to now.
    pub(super) intervals: usize,
    /// For how long.
    pub(super) time: Duration,
    /// For how long it was given a processor meanwhile.
    pub(super) ran: Duration,
    /// The loop that it was seen to be in.
    round: Option<Round>,
}

impl Call {
    /// Whether it is in a loop that has come round.
    pub(super) fn is_in_a_round(&self) -> bool {
        let frames = self.frames.as_deref().unwrap_or_default();
        self.round.as_ref().is_some_and(|round| round.holds(frames))
    }

    /// Goes on to a view that comes so long after the one before, in which the main thread ran for so long. Where no stack is seen
    /// at all it is in the same call for as long as it was seen.
    pub(super) fn see(&mut self, process: &Process, elapsed: Duration, ran: Duration) {
        let now = trace_of(process, process.pid).map(|trace| trace.frames.as_slice());
        let is_same = match (&self.frames, now) {
            (Some(then), Some(now)) => same_call(then, now) || is_deeper(then, now),
            (None, None) => true,
            _ => false,
        };
        let then = self.frames.as_deref().unwrap_or_default();
        let round = Round::see(self.round.take(), then, now.unwrap_or_default());
        let before = if is_same {
            std::mem::take(self)
        } else {
            Self::default()
        };
        *self = Self {
            frames: now.map(<[SharedFrame]>::to_vec),
            round,
            ..before
        };
        if is_same {
            self.intervals += 1;
            self.time += elapsed;
            self.ran += ran;
        }
    }

    /// Begins with the first view.
    pub(super) fn begin(&mut self, process: &Process) {
        let now = trace_of(process, process.pid);
        self.frames = now.map(|trace| trace.frames.clone());
    }
}

/// The thread that has the interpreter's lock, and for how long it has it at one line.
#[derive(Clone, Debug, Default)]
pub(super) struct Holder {
    tid: i32,
    frames: Vec<SharedFrame>,
    /// When it was first seen so, for how long it had run or waited for a processor by then, and for how long it had run.
    from: Option<(Timestamp, Option<Duration>, Option<Duration>)>,
    /// How long it is so, as long as it did not let go of the lock in between.
    pub(super) time: Duration,
    /// How long it ran meanwhile; nothing where that is not known, or where it did not run at all.
    pub(super) ran: Option<Duration>,
}

/// One that has the lock all the time runs, or is in one wait, all the time: so much of it, and no more than this, is lost in measuring.
const MEASURED: f64 = 0.1;
const LOST: Duration = Duration::from_millis(450);

impl Holder {
    /// Goes on to a later view. One in which no stack was seen changes nothing.
    pub(super) fn see(&mut self, at: Timestamp, process: &Process) {
        let Some(stacks) = &process.pyspy else {
            return;
        };
        let holder = stacks.traces.iter().find(|trace| trace.owns_gil);
        let tid = holder.and_then(|trace| i32::try_from(trace.os_thread_id?).ok());
        let (Some(holder), Some(tid)) = (holder, tid) else {
            *self = Self::default();
            return;
        };
        let thread = thread_index(process, tid).map(|index| &process.proc.threads[index]);
        let occupied = thread.and_then(occupied);
        let ran = thread.and_then(ran_for);
        let is_same = self.tid == tid && same_place(&self.frames, &holder.frames);
        match self.from.filter(|_| is_same && !holder.frames.is_empty()) {
            Some((from, before, ran_before)) => {
                let time = at.since(from);
                // What it did besides it did without the lock.
                let own = before
                    .zip(occupied)
                    .map(|(then, now)| now.saturating_sub(then));
                let lets_go = own.is_some_and(|own| {
                    !own.is_zero() && time.saturating_sub(own) > LOST.min(time.mul_f64(MEASURED))
                });
                if lets_go {
                    (self.time, self.ran) = (Duration::ZERO, None);
                    self.from = Some((at, occupied, ran));
                } else {
                    let more = ran_before
                        .zip(ran)
                        .map(|(then, now)| now.saturating_sub(then));
                    (self.time, self.ran) = (time, more.filter(|more| !more.is_zero()));
                }
            }
            None => {
                *self = Self {
                    tid,
                    frames: holder.frames.clone(),
                    from: Some((at, occupied, ran)),
                    ..Self::default()
                };
            }
        }
    }
}

/// Whether the main thread never had the interpreter's lock in these views, as our own reader tells: it is in a call of a library.
pub(super) fn is_of_library(views: &[(usize, &Process)]) -> bool {
    let seen = views.iter().filter_map(|(_, process)| {
        let stacks = process.pyspy.as_ref();
        let is_told = stacks.is_some_and(|it| it.source == StackSourceName::Own);
        trace_of(process, process.pid).map(|trace| trace.owns_gil || !is_told)
    });
    !seen.max().unwrap_or(true)
}

/// One that runs less often in an interval waits for long each time; another one polls.
const SELDOM: f64 = 4.0;

/// Whether the main thread was given a processor but now and then in these views, which are so far apart.
pub(super) fn is_seldom(views: &[(usize, &Process)], span: Duration, unit: Duration) -> bool {
    let count = |view: &(usize, &Process)| -> Option<f64> {
        let (_, turns) = super::runs(main_thread(view.1)?)?;
        turns.parse().ok()
    };
    let turns = views
        .first()
        .and_then(count)
        .zip(views.last().and_then(count));
    turns.is_some_and(|(then, now)| (now - then) * unit.as_secs_f64() < SELDOM * span.as_secs_f64())
}

/// For how long the main thread of a process ran, where the kernel counts it.
pub(super) fn main_ran_for(process: &Process) -> Option<Duration> {
    main_thread(process).and_then(ran_for)
}
