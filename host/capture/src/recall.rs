//! What was read in earlier captures and still holds, because the threads that it is of have not run since.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{Detail, Gap, NamespaceSet, ProcessId, Stacks, Step, SystemCall, Timestamp};

use crate::pulse::{Mark, Rest};
use frames::Frames;

mod frames;
mod plan;

pub(crate) use plan::{StackPlan, StackResult};

/// What is remembered between captures.
#[derive(Debug, Default)]
pub(crate) struct Recall {
    frames: Mutex<Frames>,
    memory: Mutex<Memory>,
}

/// By process; of one that was not captured there is nothing.
pub(crate) type Memory = BTreeMap<ProcessId, Known>;

/// What is remembered of a process.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Those of the main thread, and its mark from before they were read.
    pub(crate) namespaces: Option<(Mark, NamespaceSet)>,
    /// By TID.
    pub(crate) threads: BTreeMap<i32, KnownThread>,
    /// Its Python stacks.
    stacks: Option<KnownStacks>,
}

/// What holds while a thread does not run.
#[derive(Clone, Debug)]
pub(crate) struct KnownThread {
    /// How much of it was read.
    pub(crate) detail: Detail,
    /// What reading it lacked.
    pub(crate) gaps: Vec<Gap>,
    /// From before it was read.
    pub(crate) mark: Mark,
    /// The capture that read it.
    pub(crate) since: Timestamp,
    pub(crate) waits: Waits,
}

/// Where a thread stands in the kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// Without the target of its descriptor, which may be closed and opened by others.
    pub(crate) call: Option<SystemCall>,
    pub(crate) kernel_stack: Vec<String>,
    pub(crate) syscall: Option<String>,
    pub(crate) wchan: Option<String>,
}

#[derive(Debug)]
struct KnownStacks {
    /// From before they were read.
    rest: Rest,
    since: Timestamp,
    stacks: Stacks,
    steps: Vec<Step>,
}

impl Recall {
    /// Takes what is remembered of `ids`, which are in order, and forgets all others.
    pub(crate) fn take(&self, ids: &[ProcessId]) -> Memory {
        let mut memory = std::mem::take(&mut *lock(&self.memory));
        memory.retain(|id, _| ids.binary_search(id).is_ok());
        memory
    }

    /// Remembers `memory` for the next capture.
    pub(crate) fn put(&self, memory: Memory) {
        *lock(&self.memory) = memory;
    }

    /// Keeps each distinct frame of `read`, and of what was read before and is remembered, once.
    pub(crate) fn share_frames(&self, read: &mut [StackResult]) {
        let mut frames = lock(&self.frames);
        let stacks = read
            .iter_mut()
            .filter_map(|(_, result)| result.as_mut().ok()?.as_mut());
        for read in stacks {
            frames.share(&mut read.stacks);
        }
        frames.forget_unused();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
