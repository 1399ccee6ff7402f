//! What is known of the main thread of a process over all snapshots, seen one by one, so that none has to be kept for it.

use std::collections::HashMap;
use std::time::Duration;

use model::{Capture, Process, ProcessId, Timestamp, Trigger};
use serde_json::Number;

use super::calls::{Call, Holder, main_ran_for};
use super::{held_back, runs};
use crate::case::main_thread;

/// How long a main thread stood still, now and before, and how long it takes to count one further.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    /// When it was first seen, and whether it was not there before.
    begin: Option<Timestamp>,
    is_born: bool,
    /// When it was last seen, and by what it is told whether it has run since.
    last: Option<(Timestamp, Option<(String, String)>)>,
    /// The call that it is in, and for how long it had run when it was last seen.
    pub(super) call: Call,
    ran: Option<Duration>,
    /// Who has the interpreter's lock.
    pub(super) holder: Holder,
    /// How many intervals up to now it did not run.
    pub(crate) still_intervals: usize,
    /// How long it has not run, up to now.
    pub(crate) still: Duration,
    /// The longest time before that in which it did not run between two views or more.
    pub(crate) longest_still: Duration,
    /// How long the first one further took that was seen, without the time in which it waited for a processor: what is done once,
    /// such as loading and compiling, belongs to it.
    first_step: Option<Duration>,
    /// The longest time that later ones took, and how many were counted.
    later_steps: (Duration, f64),
    /// Since when the outermost number that it counts is what it is, and for how long it had waited for a processor by then.
    step: Option<(Timestamp, Number, Duration)>,
}

/// So many intervals are the youth of a process: it loads, connects and compiles.
const YOUNG: u32 = 6;

/// So many steps show how long one takes without the first.
const MANY: f64 = 3.0;

/// The tracks of all processes of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracks {
    of: HashMap<ProcessId, Track>,
    /// Whether a snapshot was seen.
    has_begun: bool,
}

impl Track {
    /// Goes on to a later view of the process; one that is not later is passed over.
    pub(crate) fn see(&mut self, at: Timestamp, process: &Process) {
        let known = self.last.as_ref().map(|(then, _)| *then);
        if known.is_some_and(|then| at <= then) {
            return;
        }
        self.holder.see(at, process);
        let ran = main_ran_for(process);
        let ran_before = std::mem::replace(&mut self.ran, ran);
        if let Some(then) = known {
            let elapsed = at.since(then);
            let more = ran_before
                .zip(ran)
                .map(|(then, now)| now.saturating_sub(then));
            self.call.see(process, elapsed, more.unwrap_or(elapsed));
        } else {
            self.begin = Some(at);
            self.call.begin(process);
        }
        let thread = main_thread(process);
        let ran = thread.and_then(runs);
        if let Some((then, before)) = &self.last {
            let before = before
                .as_ref()
                .map(|(time, turns)| (time.as_str(), turns.as_str()));
            if before.is_some() && before == ran {
                self.still_intervals += 1;
                self.still += at.since(*then);
            } else {
                self.longest_still = self.longest_still.max(self.still);
                (self.still_intervals, self.still) = (0, Duration::ZERO);
            }
        }
        self.last = Some((
            at,
            ran.map(|(time, turns)| (time.to_owned(), turns.to_owned())),
        ));
        self.count(at, process);
    }

    /// Whether it has hardly begun: it was seen from its begin, came to a stand soon, has counted no step and is in no loop that has
    /// come round.
    pub(super) fn is_young(&self, unit: Duration) -> bool {
        let stood = self.still.max(self.call.time);
        let seen = self.begin.zip(self.last.as_ref());
        let ran_for = seen.map(|(begin, (now, _))| now.since(begin).saturating_sub(stood));
        let is_soon = ran_for.is_some_and(|time| time < unit * YOUNG);
        self.is_born && is_soon && !self.counts() && !self.call.is_in_a_round()
    }

    /// Whether it has counted: what is above one was not counted from there, as far as anybody knows.
    pub(super) fn counts(&self) -> bool {
        let value = self.step.as_ref().and_then(|(_, value, _)| value.as_f64());
        self.first_step.is_some() || value.is_some_and(|value| value > 1.0)
    }

    /// How long it has not counted further, up to now.
    pub(crate) fn step_since(&self) -> Duration {
        let now = self.last.as_ref().map(|(at, _)| *at);
        now.zip(self.step.as_ref())
            .map_or(Duration::ZERO, |(now, (from, _, _))| now.since(*from))
    }

    /// The longest time that it took to count one further, as far as that was seen; the first only where few came after it.
    pub(crate) fn step_time(&self) -> Duration {
        let (later, counted) = self.later_steps;
        let first = self.first_step.filter(|_| counted < MANY);
        later.max(first.unwrap_or_default())
    }

    fn count(&mut self, at: Timestamp, process: &Process) {
        // The outermost function's: the last.
        let Some(step) = process.steps.last() else {
            return;
        };
        let held_back = main_thread(process).map_or(Duration::ZERO, held_back);
        match &self.step {
            Some((_, value, _)) if *value == step.value => return,
            Some((from, value, before)) => {
                // Several may have been counted meanwhile.
                let numbers = step.value.as_f64().zip(value.as_f64());
                let counted = numbers.map_or(1.0, |(now, then)| now - then);
                let own = at
                    .since(*from)
                    .saturating_sub(held_back.saturating_sub(*before));
                let time = own.div_f64(counted.max(1.0));
                if self.first_step.is_none() {
                    self.first_step = Some(time);
                } else {
                    let (longest, before) = self.later_steps;
                    self.later_steps = (longest.max(time), before + counted.max(1.0));
                }
            }
            None => {}
        }
        self.step = Some((at, step.value.clone(), held_back));
    }
}

impl Tracks {
    /// Returns what is known of a process; of one that was not seen yet, whether it begins.
    pub(super) fn of(&self, identity: ProcessId, begins: bool) -> Track {
        self.of.get(&identity).cloned().unwrap_or_else(|| Track {
            is_born: self.has_begun || begins,
            ..Track::default()
        })
    }

    /// Goes on to a later snapshot, whose processes these are, and forgets all others.
    pub(crate) fn see(&mut self, capture: &Capture, processes: &[Process]) {
        let is_born = self.has_begun || capture.trigger == Some(Trigger::Start);
        let mut before = std::mem::take(&mut self.of);
        for process in processes {
            let mut track = before.remove(&process.identity).unwrap_or_else(|| Track {
                is_born,
                ..Track::default()
            });
            track.see(capture.started_at, process);
            self.of.insert(process.identity, track);
        }
        self.has_begun = true;
    }
}
