//! Python stacks of other processes, and why there are none.
//!
//! Whatever can hang runs in another process that can be given up: our own reader (`crate::frames`) and py-spy as a library
//! in stack helpers of our own (`pool`, `shift`, and `crate::helper`; their inside is `helper`, `reader`, `reach`), or an external
//! py-spy (`executable`).

mod complaint;
mod convert;
mod executable;
mod helper;
mod image;
mod interpreter;
mod pool;
mod reach;
mod reader;
mod recorded;
mod shift;
mod way;
pub(crate) mod wire;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ::helper::Register;
use model::{Gap, GapCode, ProcessId, Stacks, Step};

use crate::helper::HelperProgram;
use crate::{StackSettings, StackSource};
use executable::External;
pub use helper::stack_helper;
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

/// Which numbers of Python frames are wanted beside the stacks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    /// Files whose frames are asked, beside the main module's: ends of paths, in which `*` and `**` stand for any part.
    pub(crate) focus: Vec<String>,
    /// The names of variables.
    pub(crate) locals: Vec<String>,
}

/// What was read of a process.
#[derive(Debug, PartialEq)]
pub(crate) struct Read {
    /// Its stacks.
    pub(crate) stacks: Stacks,
    /// The numbers that were wanted and found.
    pub(crate) steps: Vec<Step>,
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
    Stacks(Stacks, Vec<Step>),
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
        numbers: &Numbers,
        deadline: Instant,
    ) -> Vec<(ProcessId, Result<Option<Read>, Gap>)> {
        self.read_and_keep(wanted, &[], numbers, deadline)
    }

    /// Reads the stacks of `wanted`. Those of `kept` are not read now but will be again: what makes that quick is kept.
    pub(crate) fn read_and_keep(
        &self,
        wanted: &[Wanted],
        kept: &[ProcessId],
        numbers: &Numbers,
        deadline: Instant,
    ) -> Vec<(ProcessId, Result<Option<Read>, Gap>)> {
        let ids: Vec<ProcessId> = wanted.iter().map(|one| one.id).collect();
        let mut readings: HashMap<ProcessId, Reading> = match &self.source {
            Source::Off => ids
                .iter()
                .map(|&id| (id, Reading::Gap(gap(id, GapCode::Off))))
                .collect(),
            Source::Embedded(pool) => pool
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .read(&ids, kept, numbers, deadline),
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

    /// Returns where processes of ours are known, all helpers and external readers among them; none of them is the task's.
    pub(crate) fn register(&self) -> &Register {
        &self.register
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
fn settle(wanted: &Wanted, reading: Reading) -> Result<Option<Read>, Gap> {
    match reading {
        Reading::Stacks(stacks, steps) => Ok(Some(Read { stacks, steps })),
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
