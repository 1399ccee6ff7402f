//! Reads that wait for the memory of a process, in a helper process that can be killed.
//!
//! To read `cmdline`, `environ`, `maps`, `smaps_rollup` or words of its memory, the kernel takes the lock of the memory map of a
//! process or fetches a page of it, and waits for that without end: behind a page fault on a dead network file system, say.
//! So one helper of our own reads them for all processes, a list of jobs at a time. When no answer comes it is killed, its
//! process has a gap and is left alone for some captures, and a new helper goes on with the next one. A helper that does not
//! die is abandoned, and its process left alone until it does.
//!
//! Where there is no helper program (a recorded machine, a test, use as a library) the same code reads in place: then
//! nothing protects from a process that blocks its reader, which files of a recording never do.

mod connections;
mod crew;
mod executables;
mod handed;
mod image;
mod service;
mod variables;
mod wire;
mod words;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use helper::Register;
use model::{GapCode, ProcessId};

use crate::helper::HelperProgram;
use crew::Crew;
use service::{Service, Sink, To};

pub use service::memory_helper;
pub(crate) use wire::{Environment, Job, Piece, Task};

/// More than this of a `maps` file is not searched.
const MAPS_LIMIT: usize = 8 << 20;

/// Why a job was not done, or not to its end.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: GapCode,
    pub(crate) detail: String,
}

/// Reads the memory of processes.
pub(crate) struct MemoryReader {
    reads: Mutex<Reads>,
}

enum Reads {
    InHelper(Crew),
    InPlace(Service),
}

impl Default for MemoryReader {
    fn default() -> Self {
        Self {
            reads: Mutex::new(Reads::InPlace(Service::default())),
        }
    }
}

impl MemoryReader {
    /// Returns one that reads in helpers, which will be in `register`. Starts nothing yet.
    pub(crate) fn with_helper(program: HelperProgram, register: Register) -> Self {
        Self {
            reads: Mutex::new(Reads::InHelper(Crew::new(program, register))),
        }
    }

    /// Begins a capture of `ids` below the root `proc`. Returns which of them are not to be read in it, and why.
    pub(crate) fn begin(&self, proc: &Path, ids: &[ProcessId]) -> Vec<(ProcessId, String)> {
        match &mut *self.lock() {
            Reads::InHelper(crew) => crew.begin(proc, ids),
            Reads::InPlace(_) => Vec::new(),
        }
    }

    /// Does `jobs` on the processes below the root `proc` and gives each answer with the position of its job to `take`.
    /// `names` are variables to keep beyond the built-in ones. Returns the jobs that were not done to their end.
    pub(crate) fn read(
        &self,
        proc: &Path,
        names: &[String],
        jobs: &[Job],
        take: &mut dyn FnMut(usize, Piece),
    ) -> Vec<(usize, Failure)> {
        match &mut *self.lock() {
            Reads::InHelper(crew) => crew.read(proc, names, jobs, take),
            Reads::InPlace(service) => {
                service.answer(proc, names, jobs, &mut Sink::new(To::Here(take)));
                Vec::new()
            }
        }
    }

    /// Ends all helpers within a second or so. A later read starts new ones.
    pub(crate) fn close(&self) {
        if let Reads::InHelper(crew) = &mut *self.lock() {
            crew.close();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MemoryReader {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for MemoryReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("MemoryReader")
            .finish_non_exhaustive()
    }
}
