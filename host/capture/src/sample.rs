//! The cheap reading between snapshots: memory, CPU and transfers of every process of the task, its cgroup, the machine, GPUs.
//!
//! It reads what the kernel has as numbers, takes no lock of any process's memory, and keeps its files open. Only shares of memory
//! (`shares`) walk pages: in a helper, within a budget, and where they are asked for.

mod gpus;
mod kept;
mod machine;
mod members;
mod shares;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Sample, Timestamp};

use crate::capture::milliseconds;
use crate::cgroup::SampledCgroup;
use crate::cost;
use crate::discover::Look;
use crate::error::CaptureError;
use crate::machine::Machine;
use crate::scope::Scope;
use gpus::GpuAsker;
use machine::MachineFiles;
use members::Members;
use shares::Shares;

pub(crate) use kept::{Keeper, Kept, is_of_the_kernel};

/// What samples of one task remember: open files, and which processes there were.
#[derive(Debug)]
pub struct Sampler {
    cgroup: SampledCgroup,
    gpus: Option<GpuAsker>,
    keeper: Keeper,
    machine: Arc<Machine>,
    machine_files: MachineFiles,
    members: Members,
    scope: Scope,
    shares: Option<Shares>,
}

/// When a sample is taken.
#[derive(Clone, Copy, Debug)]
pub struct SampleMoment {
    /// The present.
    pub now: Timestamp,
    /// Since the start of the collector, by the monotonic clock.
    pub elapsed: Duration,
}

impl Sampler {
    /// Returns what takes samples of the task of `scope`; `detailed_memory`: of whose memory it is, too. Reads nothing yet.
    pub fn new(machine: Arc<Machine>, scope: Scope, detailed_memory: bool) -> Self {
        Self {
            cgroup: SampledCgroup::default(),
            gpus: GpuAsker::start(&machine),
            keeper: Keeper::new(),
            machine_files: MachineFiles::of(&machine),
            members: Members::default(),
            scope,
            shares: detailed_memory.then(|| Shares::new(machine.other_memory_reader())),
            machine,
        }
    }

    /// Returns the machine that is looked at.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Ends the helper of this sampler, if it has one.
    pub fn close(&self) {
        if let Some(shares) = &self.shares {
            shares.close();
        }
    }
}

/// Takes a sample. The error says that no process is left, or that there is no `/proc`.
pub fn sample(sampler: &mut Sampler, moment: SampleMoment) -> Result<Sample, CaptureError> {
    let (began, cpu) = (Instant::now(), cost::of_thread());
    let Sampler {
        cgroup,
        gpus,
        keeper,
        machine,
        machine_files,
        members,
        scope,
        shares,
    } = sampler;
    let mut gaps = Vec::new();
    let (load_average, last) = machine_files.load(machine, keeper);
    let look = Look { began, last };
    let mut processes = members.read(machine, scope, keeper, look, &mut gaps)?;
    if let Some(shares) = shares {
        shares.read(machine, &mut processes, &mut gaps);
    }
    let mut sample = Sample {
        at: moment.now,
        cgroup: cgroup.read(machine, &scope.root_cgroup, keeper),
        cpu_ms: None,
        duration_ms: 0.0,
        elapsed_seconds: moment.elapsed.as_secs_f64(),
        gpus: gpus
            .as_mut()
            .map_or_else(Vec::new, |gpus| gpus.take(moment.now, &mut gaps)),
        gaps,
        machine: machine_files.read(machine, keeper),
        processes,
        root: scope.root,
    };
    sample.machine.load_average = load_average;
    let used = cost::of_thread()
        .zip(cpu)
        .map(|(now, before)| now.saturating_sub(before));
    sample.cpu_ms = used.map(milliseconds);
    sample.duration_ms = milliseconds(began.elapsed());
    Ok(sample)
}
