//! Which processes are ours.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The PIDs of all processes of ours that may still be there. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Register(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    living: BTreeSet<i32>,
    /// What processes used that told it, in the order of their ends.
    used: Vec<(i32, Duration)>,
}

/// The register, held: until this is dropped no process of ours is started, and none that has ended is forgotten.
#[derive(Debug)]
pub struct Held<'a>(MutexGuard<'a, Known>);

impl Register {
    /// Returns the PIDs in ascending order.
    pub fn pids(&self) -> Vec<i32> {
        self.hold().pids()
    }

    /// Holds it while somebody looks at which processes there are: one of ours that begins meanwhile, on another
    /// thread, would be taken for a stranger.
    pub fn hold(&self) -> Held<'_> {
        Held(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes the CPU time that the process `pid` used in all. To be called before its end is waited for: somebody else may
    /// reap it, and then nobody can ask the kernel any more.
    pub fn note_used(&self, pid: i32, cpu: Duration) {
        self.hold().0.used.push((pid, cpu));
    }
}

impl Held<'_> {
    /// Returns the PIDs in ascending order.
    pub fn pids(&self) -> Vec<i32> {
        self.0.living.iter().copied().collect()
    }

    /// Returns what was noted by [`Register::note_used`], but for the first `known`.
    pub fn used(&self, known: usize) -> &[(i32, Duration)] {
        self.0.used.get(known..).unwrap_or_default()
    }

    pub(crate) fn insert(&mut self, pid: i32) {
        self.0.living.insert(pid);
    }

    pub(crate) fn remove(&mut self, pid: i32) {
        self.0.living.remove(&pid);
    }
}
