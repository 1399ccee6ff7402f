//! Which Python stacks are read in a capture, and which are known to be the same.

use std::collections::BTreeMap;
use std::io;

use model::{Gap, ProcessId, Stacks, Timestamp};

use super::{KnownStacks, Memory};
use crate::pulse::{Pulses, Rest};
use crate::stacks::{Read, Wanted};

/// What came of a process: stacks, a gap, or that it is not Python.
pub(crate) type StackResult = (ProcessId, Result<Option<Read>, Gap>);

/// What to read and what is known.
#[derive(Debug)]
pub(crate) struct StackPlan {
    /// Whose stacks are known: they will be read again some day.
    pub(crate) kept: Vec<ProcessId>,
    /// Whose stacks are to be read.
    pub(crate) wanted: Vec<Wanted>,
    known: Vec<StackResult>,
    /// Of those that are to be read, where no thread runs.
    rests: BTreeMap<ProcessId, Rest>,
}

impl StackPlan {
    /// Looks for stacks of `wanted` in `memory`. Those of a process hold if *no* thread of it has run since before they were
    /// read: a thread has not only its own stack in its hands, but also names, the interpreter's lock, and other threads.
    pub(crate) fn new(
        wanted: Vec<Wanted>,
        pulses: &BTreeMap<ProcessId, io::Result<Pulses>>,
        memory: &Memory,
    ) -> Self {
        let mut plan = Self {
            kept: Vec::new(),
            wanted: Vec::new(),
            known: Vec::new(),
            rests: BTreeMap::new(),
        };
        for wanted in wanted {
            let id = wanted.id;
            let pulses = pulses.get(&id).and_then(|pulses| pulses.as_ref().ok());
            let rest = pulses.and_then(Pulses::rest);
            let known = memory.get(&id).and_then(|known| known.stacks.as_ref());
            let known = known.filter(|known| Some(&known.rest) == rest.as_ref());
            if let Some(known) = known {
                plan.known.push((id, Ok(Some(known.unpack()))));
                plan.kept.push(id);
            } else {
                plan.rests.extend(rest.map(|rest| (id, rest)));
                plan.wanted.push(wanted);
            }
        }
        plan
    }

    /// Returns all results, of which `read` were read for the capture of `now`; puts those into `memory`.
    pub(crate) fn finish(
        mut self,
        read: Vec<StackResult>,
        memory: &mut Memory,
        now: Timestamp,
    ) -> Vec<StackResult> {
        for (id, result) in &read {
            let rest = self.rests.remove(id);
            let read = result.as_ref().ok().and_then(Option::as_ref);
            let known = rest.zip(read).map(|(rest, read)| KnownStacks {
                rest,
                since: now,
                stacks: read.stacks.clone(),
                steps: read.steps.clone(),
            });
            if let Some(process) = memory.get_mut(id) {
                process.stacks = known;
            }
        }
        self.known.extend(read);
        self.known
    }
}

impl KnownStacks {
    fn unpack(&self) -> Read {
        Read {
            stacks: Stacks {
                unchanged_since: Some(self.since),
                ..self.stacks.clone()
            },
            steps: self.steps.clone(),
        }
    }
}
