//! Which processes are ours.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The PIDs of all processes of ours that may still be there. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Register(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    /// What processes used that told it, in the order of their ends. It is locked while the register is held.
    used: Mutex<Vec<(i32, Duration)>>,
    /// Changed by who holds the register, and never locked for long.
    living: Mutex<BTreeSet<i32>>,
}

/// The register, held: until this is dropped no process of ours is started, and none that has ended is forgotten.
#[derive(Debug)]
pub struct Held<'a> {
    known: &'a Known,
    used: MutexGuard<'a, Vec<(i32, Duration)>>,
}

impl Register {
    /// Returns the PIDs in ascending order.
    pub fn pids(&self) -> Vec<i32> {
        self.hold().pids()
    }

    /// Holds it while somebody looks at which processes there are: one of ours that begins meanwhile, on another
    /// thread, would be taken for a stranger.
    pub fn hold(&self) -> Held<'_> {
        let used = self.0.used.lock();
        Held {
            known: &self.0,
            used: used.unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Whether `pid` is a process of ours. Does not wait for who holds the register.
    pub fn contains(&self, pid: i32) -> bool {
        self.0.living().contains(&pid)
    }

    /// Notes the CPU time that the process `pid` used in all. To be called before its end is waited for: somebody else may
    /// reap it, and then nobody can ask the kernel any more.
    pub fn note_used(&self, pid: i32, cpu: Duration) {
        self.hold().used.push((pid, cpu));
    }
}

impl Held<'_> {
    /// Returns the PIDs in ascending order.
    pub fn pids(&self) -> Vec<i32> {
        self.known.living().iter().copied().collect()
    }

    /// Returns what was noted by [`Register::note_used`], but for the first `known`.
    pub fn used(&self, known: usize) -> &[(i32, Duration)] {
        self.used.get(known..).unwrap_or_default()
    }

    pub(crate) fn insert(&mut self, pid: i32) {
        self.known.living().insert(pid);
    }

    pub(crate) fn remove(&mut self, pid: i32) {
        self.known.living().remove(&pid);
    }
}

impl Known {
    fn living(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.living.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
