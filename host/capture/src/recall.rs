//! What was read in earlier captures and still holds, because the threads that it is of have not run since.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use model::{Detail, Gap, NamespaceSet, ProcessId, Step, SystemCall, Timestamp};

use crate::pulse::{Mark, Rest};
use packed::PackedStacks;

mod packed;
mod plan;

pub(crate) use plan::{StackPlan, StackResult};

/// What is remembered between captures.
#[derive(Debug, Default)]
pub(crate) struct Recall(Mutex<Memory>);

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
    stacks: PackedStacks,
    steps: Vec<Step>,
}

impl Recall {
    /// Takes what is remembered of `ids`, which are in order, and forgets all others.
    pub(crate) fn take(&self, ids: &[ProcessId]) -> Memory {
        let mut memory =
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        memory.retain(|id, _| ids.binary_search(id).is_ok());
        memory
    }

    /// Remembers `memory` for the next capture.
    pub(crate) fn put(&self, memory: Memory) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = memory;
    }
}
