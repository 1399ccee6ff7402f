//! Python stacks of other processes, and why there are none.
//!
//! Whatever can hang runs in another process that can be given up: py-spy as a library in stack helpers of our own
//! (`pool`, `link`, `shift`; their inside is `helper`, `reader`), or an external py-spy (`executable`).

mod complaint;
mod convert;
mod executable;
mod helper;
mod image;
mod interpreter;
mod link;
mod pipe;
mod pool;
mod reader;
mod recorded;
mod shift;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ::helper::Register;
use model::{Gap, GapCode, ProcessId, Stacks};

use crate::{StackSettings, StackSource};
use executable::External;
pub use helper::stack_helper;
use link::HelperProgram;
use pool::Pool;

/// A process whose stacks are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The process.
    pub(crate) id: ProcessId,
    /// The target of its `/proc/PID/exe`; an external py-spy is looked for beside it.
    pub(crate) exe: Option<PathBuf>,
    /// Whether it is known to be Python; where it only may be, "not Python" is an answer and no gap.
    pub(crate) certain: bool,
}

/// Reads Python stacks the way the settings say.
#[derive(Debug)]
pub(crate) struct StackReaders {
    register: Register,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Off,
    Embedded(Mutex<Pool>),
    Executable(External),
    Recorded(PathBuf),
}

/// What came of one process.
#[derive(Debug)]
enum Reading {
    Stacks(Stacks),
    NotPython,
    Gap(Gap),
}

impl StackReaders {
    /// Starts nothing yet.
    pub(crate) fn new(settings: StackSettings) -> Self {
        let register = Register::default();
        let source = match settings.source.clone() {
            StackSource::Off => Source::Off,
            StackSource::Embedded { helper, arguments } => {
                let helper = HelperProgram {
                    program: helper,
                    arguments,
                };
                Source::Embedded(Mutex::new(Pool::new(helper, settings, register.clone())))
            }
            StackSource::Executable { program, path } => {
                Source::Executable(External::new(program, path, &settings, register.clone()))
            }
            StackSource::Recorded(directory) => Source::Recorded(directory),
        };
        Self { register, source }
    }

    /// Reads the stacks of `wanted` until `deadline`, in their order. `Ok(None)`: it is not Python, which is an answer
    /// where `certain` is false; every other absence is a gap `python_stack`. One process may take the timeout of the
    /// settings, but at most half of the time that is left, so that one that hangs leaves time for others.
    pub(crate) fn read(
        &self,
        wanted: &[Wanted],
        deadline: Instant,
    ) -> Vec<(ProcessId, Result<Option<Stacks>, Gap>)> {
        let ids: Vec<ProcessId> = wanted.iter().map(|one| one.id).collect();
        let mut readings: HashMap<ProcessId, Reading> = match &self.source {
            Source::Off => ids
                .iter()
                .map(|&id| (id, Reading::Gap(gap(id, GapCode::Off))))
                .collect(),
            Source::Embedded(pool) => pool
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .read(&ids, deadline),
            Source::Executable(external) => external.read(wanted, deadline),
            Source::Recorded(directory) => ids
                .iter()
                .map(|&id| (id, recorded::read(directory, id)))
                .collect(),
        };
        wanted
            .iter()
            .map(|one| {
                let reading = readings.remove(&one.id).unwrap_or(Reading::NotPython);
                (one.id, settle(one, reading))
            })
            .collect()
    }

    /// Returns where our processes are known; none of them is the task's.
    pub(crate) fn register(&self) -> &Register {
        &self.register
    }

    /// Returns the PIDs of all helpers and external readers that may still be there.
    pub(crate) fn helper_pids(&self) -> Vec<i32> {
        self.register.pids()
    }

    /// Ends all helpers within a second or so. A later read starts new ones.
    pub(crate) fn close(&self) {
        if let Source::Embedded(pool) = &self.source {
            pool.lock().unwrap_or_else(PoisonError::into_inner).close();
        }
    }
}

impl Drop for StackReaders {
    fn drop(&mut self) {
        self.close();
    }
}

/// Judges a reading by whether the process was known to be Python.
fn settle(wanted: &Wanted, reading: Reading) -> Result<Option<Stacks>, Gap> {
    match reading {
        Reading::Stacks(stacks) => Ok(Some(stacks)),
        Reading::NotPython if wanted.certain => {
            let gap = gap(wanted.id, GapCode::Unsupported);
            Err(gap.with_detail("py-spy finds no Python interpreter in it"))
        }
        // Nothing is missing where nothing was known to be there.
        Reading::Gap(Gap {
            code: GapCode::Off | GapCode::NoReader,
            ..
        }) if !wanted.certain => Ok(None),
        Reading::NotPython => Ok(None),
        Reading::Gap(gap) => Err(gap),
    }
}

fn gap(process: ProcessId, code: GapCode) -> Gap {
    Gap::new("python_stack", code).of(process)
}
