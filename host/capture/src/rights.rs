//! Which rights hold here: what of a process and of the machine can be read, why not, and what grants it.
//!
//! Each right is tried, not only worked out: a container's seccomp filter or a security module may forbid what the
//! capabilities allow. The trials read nothing of the process's memory and change nothing.

mod files;
mod gpus;
mod memory;
mod ours;
mod process;
mod reason;
mod remedy;

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use model::{Gap, GapCode, ProcessId};
use serde::Serialize;

pub use gpus::try_gpus;
pub use ours::OwnRights;
pub use process::ProcessRights;
pub use remedy::Remedy;
pub(crate) use remedy::{
    GPU_LIBRARY, GPU_VERSIONS, PY_SPY_ITSELF, SAME_USER, SYS_ADMIN, YAMA_DESCENDANTS, YAMA_NOBODY,
    YAMA_PRIVILEGED,
};

use crate::error::CaptureError;
use crate::machine::Machine;
use crate::proc::Reader;

/// How long a trial may take before its thread is abandoned.
const PATIENCE: Duration = Duration::from_secs(1);

/// What there is a right to. Serialises in snake case; gaps name it in the same words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RightName {
    /// Processes of other users are listed in `/proc`.
    VisibleProcesses,
    /// The files of `/proc/PID` that the kernel guards: `environ`, `exe`, `fd`, `io`, `maps`, `syscall`.
    ProcessFiles,
    /// The memory of a process: Python stacks, words of futexes.
    ProcessMemory,
    /// Copies of a process's descriptors, `pidfd_getfd(2)`.
    ProcessDescriptors,
    /// Kernel stacks of threads.
    KernelStacks,
    /// Where in the kernel a thread waits, `/proc/PID/wchan`.
    WaitChannels,
    /// The list of a thread's children.
    ChildrenFiles,
    /// The task's cgroup.
    CgroupFiles,
    /// Pressure stall information.
    Pressure,
    /// Stacks of a Python process.
    PythonStacks,
    /// The GPUs, where there is a driver for them.
    Gpus,
    /// Writing to the store.
    Store,
}

impl RightName {
    /// Returns the name as it is serialised.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::VisibleProcesses => "visible_processes",
            Self::ProcessFiles => "process_files",
            Self::ProcessMemory => "process_memory",
            Self::ProcessDescriptors => "process_descriptors",
            Self::KernelStacks => "kernel_stacks",
            Self::WaitChannels => "wait_channels",
            Self::ChildrenFiles => "children_files",
            Self::CgroupFiles => "cgroup_files",
            Self::Pressure => "pressure",
            Self::PythonStacks => "python_stacks",
            Self::Gpus => "gpus",
            Self::Store => "store",
        }
    }
}

/// Whether a right holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RightState {
    /// It was tried and works.
    Holds,
    /// It was tried and does not work.
    Lost,
    /// It could not be tried.
    Unknown,
}

/// One right, tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Right {
    /// What was tried and what came of it, or why it does not hold.
    pub detail: String,
    /// What it is a right to.
    pub right: RightName,
    /// What grants it, where it is lost and that is known.
    pub remedy: Option<Remedy>,
    /// Whether it holds.
    pub state: RightState,
}

impl Right {
    /// Returns one that holds.
    pub fn holds(right: RightName, detail: impl Into<String>) -> Self {
        Self {
            detail: detail.into(),
            right,
            remedy: None,
            state: RightState::Holds,
        }
    }

    /// Returns one that does not hold, and what grants it.
    pub fn lost(right: RightName, detail: impl Into<String>, remedy: Option<Remedy>) -> Self {
        Self {
            detail: detail.into(),
            right,
            remedy,
            state: RightState::Lost,
        }
    }

    /// Returns one that could not be tried.
    pub fn unknown(right: RightName, detail: impl Into<String>) -> Self {
        Self {
            detail: detail.into(),
            right,
            remedy: None,
            state: RightState::Unknown,
        }
    }
}

/// What was found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rights {
    /// Ours.
    pub ours: OwnRights,
    /// The process that was looked at.
    pub process: ProcessRights,
    /// Each right, tried on that process.
    pub rights: Vec<Right>,
}

/// Tries every right on the process `pid` of `machine`.
pub fn try_rights(machine: &Machine, pid: i32) -> Result<Rights, CaptureError> {
    let id = machine.identify(pid)?;
    let mut reader = Reader::new();
    let ours = OwnRights::read(machine, &mut reader);
    let process = ProcessRights::read(machine, id, &mut reader);
    let directory = machine.proc.join(pid.to_string());
    let mut rights = vec![
        files::visible_processes(machine, &ours),
        files::process_files(&directory, &ours, &process),
    ];
    rights.extend(memory::try_both(&directory, pid, &ours, &process));
    rights.push(files::kernel_stacks(
        &directory,
        &ours,
        &process,
        &mut reader,
    ));
    rights.push(files::wait_channels(
        &directory,
        &ours,
        &process,
        &mut reader,
    ));
    rights.push(files::children_files(&directory, pid, &mut reader));
    rights.extend(files::cgroup_and_pressure(machine, &directory, &mut reader));
    rights.extend(files::python_stacks(machine, id, &directory));
    Ok(Rights {
        ours,
        process,
        rights,
    })
}

/// Says on each of `gaps` which right is lacking.
pub(crate) fn name_rights(gaps: &mut [Gap]) {
    for gap in gaps {
        gap.right = of_gap(gap).map(|right| right.as_str().into());
    }
}

fn of_gap(gap: &Gap) -> Option<RightName> {
    let what = gap.what.as_str();
    let is_refused = gap.code == GapCode::Denied;
    match what {
        "pressure/*" if gap.code != GapCode::Malformed => Some(RightName::Pressure),
        "cgroup" if gap.process.is_none() => Some(RightName::CgroupFiles),
        "gpus" if is_refused || gap.code == GapCode::NoReader => Some(RightName::Gpus),
        _ if !is_refused => None,
        _ if what.starts_with("cgroup/") => Some(RightName::CgroupFiles),
        _ if gap.process.is_none() => None,
        "python_stack" => Some(RightName::ProcessMemory),
        _ if what.ends_with("stack") => Some(RightName::KernelStacks),
        _ if what.ends_with("wchan") => Some(RightName::WaitChannels),
        _ if what.contains("futex") => Some(RightName::ProcessMemory),
        "ipc/pipe" => Some(RightName::ProcessDescriptors),
        _ => Some(RightName::ProcessFiles),
    }
}

/// Runs `attempt` in a thread that is abandoned when it gives no answer in time.
fn in_time<T: Send + 'static>(attempt: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("taskscope-trial".to_owned());
    thread
        .spawn(move || {
            // Who asked may have gone on.
            _ = sender.send(attempt());
        })
        .ok()?;
    receiver.recv_timeout(PATIENCE).ok()
}

fn identity_of(directory: &Path, id: ProcessId, reader: &mut Reader) -> Option<ProcessId> {
    let content = reader.read_path(&directory.join("stat")).ok()?;
    let stat = crate::proc::stat::parse(content)?;
    (stat.start_time_ticks == id.start_time_ticks).then_some(id)
}

#[cfg(test)]
mod tests;
