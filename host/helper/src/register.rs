//! Which processes are ours.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The PIDs of all processes of ours that may still be there. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Register(Arc<Mutex<BTreeSet<i32>>>);

/// The register, held: until this is dropped no process of ours is started, and none that has ended is forgotten.
#[derive(Debug)]
pub struct Held<'a>(MutexGuard<'a, BTreeSet<i32>>);

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
}

impl Held<'_> {
    /// Returns the PIDs in ascending order.
    pub fn pids(&self) -> Vec<i32> {
        self.0.iter().copied().collect()
    }

    pub(crate) fn insert(&mut self, pid: i32) {
        self.0.insert(pid);
    }

    pub(crate) fn remove(&mut self, pid: i32) {
        self.0.remove(&pid);
    }
}
