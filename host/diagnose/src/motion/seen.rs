//! What was seen of a process over the window, and how long is long.

use std::time::Duration;

use super::Motion;
use crate::case::{LONGEST_PATIENCE, PATIENCE};

/// A process over the window, and its main thread.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all may hold"
)]
pub(crate) struct Seen {
    pub(crate) motion: Motion,
    /// Bytes that it wrote, little as it may be; 0 also where that is not known.
    pub(crate) written_bytes: u64,
    /// How often it asked the kernel to write, whatever came of it; 0 also where that is not known.
    pub(crate) write_calls: u64,
    /// Whether the main thread was given a processor.
    pub(crate) main_ran: bool,
    /// Whether it was in every interval.
    pub(crate) main_ran_always: bool,
    /// The motion over the newest interval alone.
    pub(crate) lately: Motion,
    /// Whether the main thread is where it was throughout.
    pub(crate) stands: bool,
    /// How many intervals up to now the main thread was seen in the same call of the same functions.
    pub(crate) same_for: usize,
    /// How long, and for how much of that it was given a processor.
    pub(super) same: (Duration, Duration),
    /// Whether that is a call of a library that runs without the interpreter's lock.
    pub(super) is_of_library: bool,
    /// Whether it has hardly begun: it was seen from its begin, and came to a stand soon.
    pub(crate) is_young: bool,
    /// Whether it has counted steps.
    pub(crate) counts: bool,
    /// Whether it runs so seldom that each of its waits is long.
    pub(crate) is_seldom: bool,
    /// Whether it runs but a few times a second.
    pub(crate) pauses: bool,
    /// How long one thread has had the interpreter's lock at one line, as far as is known without a break, and how long it ran
    /// meanwhile; nothing where that is not known, or where it is in one wait.
    pub(super) keeps_lock: (Duration, Option<Duration>),
    /// The time that counts as one interval.
    pub(crate) unit: Duration,
    /// How many intervals up to now no thread of it ran, over all snapshots.
    pub(crate) still_for: usize,
    /// How many intervals up to now its main thread did not run.
    pub(crate) main_still_for: usize,
    /// How long its main thread has not run, up to now.
    pub(crate) main_still: Duration,
    /// The longest time before that in which it did not run between two snapshots or more.
    pub(crate) main_still_before: Duration,
    /// The longest time that it took to count one further, as far as that was seen.
    pub(crate) step_time: Duration,
    /// How long it has not counted further, up to now.
    pub(crate) step_since: Duration,
}

impl Seen {
    /// Whether its main thread turns in a loop as far as can be told: a loop over several lines may be at one of them a few times by
    /// chance; one that runs without the interpreter's lock is in a call of a library, which is there to compute; and one that has
    /// hardly begun prepares what it needs.
    pub(crate) fn turns(&self) -> bool {
        let is_long = match (self.is_of_library, self.is_young) {
            (true, true) => self.lasts(self.same.1, AT_FIRST),
            (true, false) => self.lasts(self.same.1, LONG_CALL),
            (false, true) => self.works_for(self.same, AT_FIRST),
            (false, false) => self.works_for(self.same, LOOP),
        };
        self.motion == Motion::Spins && self.same_for > PATIENCE + 1 && is_long
    }

    /// Whether a thread has had the interpreter's lock at one line for longer than a call takes that computes.
    pub(crate) fn keeps_lock(&self) -> bool {
        match self.keeps_lock {
            (_, Some(ran)) => ran >= self.unit.mul_f64(ONE_CALL),
            (time, None) => self.lasts(time, ONE_WAIT),
        }
    }

    /// Whether a rank that has waited for so long waits for longer than as a rule: where it is known how long a step takes, or not.
    /// A minute is longer in any case, of which looks far apart show a part.
    pub(crate) fn is_patient(&self, time: Duration, is_known: bool) -> bool {
        let least = if is_known { STEP } else { UNKNOWN };
        self.lasts(time, least) || time >= LONGEST_PATIENCE.mul_f64(SHOWN)
    }

    /// Whether it takes so many intervals what a thread does, a third of which it ran: on a machine that is busy with others it
    /// may take long for want of a processor alone.
    fn works_for(&self, (time, ran): (Duration, Duration), intervals: u32) -> bool {
        self.lasts(time, intervals) && self.lasts(ran * 3, intervals)
    }

    /// Whether a time is longer than most answers take that come from somebody who is not watched.
    pub(crate) fn is_long_unanswered(&self, time: Duration) -> bool {
        self.lasts(time, AT_FIRST)
    }

    /// Whether a time is so many intervals.
    fn lasts(&self, time: Duration, intervals: u32) -> bool {
        time + self.unit / 10 >= self.unit * intervals
    }

    /// Whether the main thread may come back from a call in which it wakes by itself, while somebody has waited for it for so long. For
    /// how long it pauses, and how often in turn, is told by how long a step takes where it counts steps, and else by nothing.
    pub(crate) fn comes_back(&self, waited: Duration, counts: bool) -> bool {
        let least = if counts { PAUSES } else { AT_FIRST };
        let time = if self.main_ran {
            self.same.0
        } else {
            self.main_still
        };
        !self.lasts(time.min(waited), least)
    }
}

/// So much of a wait lies between the first and the last look at it, where looks are far apart.
const SHOWN: f64 = 0.8;
/// So many intervals of waiting for other ranks, where it is known how long a step takes, and where it is not.
const STEP: u32 = 5;
const UNKNOWN: u32 = 6;
/// So many intervals at one line of Python, using a processor.
const LOOP: u32 = 6;
/// So many intervals of processor time in one call without the interpreter's lock are work of a library.
const LONG_CALL: u32 = 12;
/// So many intervals of processor time in which a call keeps the interpreter's lock, and so many in one wait.
const ONE_CALL: f64 = 5.5;
const ONE_WAIT: u32 = 7;
/// So many intervals of pauses.
const PAUSES: u32 = 6;
/// So many intervals of what nobody can know the time of: what is done once, pauses, the answer of a stranger.
const AT_FIRST: u32 = 15;
