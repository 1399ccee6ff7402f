//! NVIDIA GPUs, by NVML. A hung driver hangs whoever asks it, in a way that no signal ends, so a helper process asks it
//! (`helper`, `library`), and a question that gets no answer in time is left standing (`asker`).

mod asker;
mod findings;
mod helper;
mod library;
mod wire;

#[cfg(test)]
pub(crate) mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ::helper::Register;
use model::{Gap, GapCode, Gpu, GpuProcess, Process, Timestamp};

use asker::Asker;
pub(crate) use findings::findings;
pub use helper::gpu_helper;

/// How GPUs are asked.
#[derive(Clone, Debug)]
pub struct GpuSettings {
    /// The program to start as a helper: our own binary.
    pub helper: PathBuf,
    /// What makes it one, such as the hidden command.
    pub arguments: Vec<OsString>,
    /// The library to load; none: the one that the driver installed, where there is a sign of a driver.
    pub library: Option<PathBuf>,
}

/// What came of a look at the GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GpuLook {
    /// The version of the driver.
    pub(crate) driver: Option<String>,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) gpus: Vec<Gpu>,
    /// When the question was asked that has no answer yet.
    pub(crate) silent_since: Option<Timestamp>,
}

impl GpuLook {
    /// Returns one of which only a fault of ours is known.
    pub(crate) fn broken() -> Self {
        let gap = Gap::new("gpus", GapCode::Failed);
        Self {
            gaps: vec![gap.with_detail("the reader of GPUs panicked")],
            ..Self::default()
        }
    }
}

/// Asks the GPUs of a machine.
#[derive(Debug)]
pub(crate) struct GpuReader {
    asker: Mutex<Asker>,
    is_told: bool,
}

impl GpuReader {
    /// Starts nothing yet; its helpers will be in `register`.
    pub(crate) fn new(settings: GpuSettings, register: Register) -> Self {
        Self {
            is_told: settings.library.is_some(),
            asker: Mutex::new(Asker::new(settings, register)),
        }
    }

    /// Whether there is a sign of a driver below `proc`.
    pub(crate) fn is_there(&self, proc: &Path) -> bool {
        self.is_told || is_driver_there(proc)
    }

    /// Asks for about a second at most; nothing where there is no sign of a driver below `proc`.
    pub(crate) fn read(&self, proc: &Path, now: Timestamp) -> Option<GpuLook> {
        if !self.is_there(proc) {
            return None;
        }
        let mut asker = self.asker.lock().unwrap_or_else(PoisonError::into_inner);
        Some(asker.look(now))
    }

    /// Asks as [`GpuReader::read`] does, but not while a capture asks, nor where the driver is in trouble: that is for captures to
    /// wait for.
    pub(crate) fn read_beside(&self, now: Timestamp) -> Option<GpuLook> {
        let mut asker = self.asker.try_lock().ok().filter(|it| it.is_well())?;
        Some(asker.look(now))
    }

    /// Ends the helper.
    pub(crate) fn close(&self) {
        let mut asker = self.asker.lock().unwrap_or_else(PoisonError::into_inner);
        asker.close();
    }
}

/// The driver's own file, which containers see too, or on our own machine the device that every user of it opens.
fn is_driver_there(proc: &Path) -> bool {
    proc.join("driver/nvidia/version").exists()
        || (proc == Path::new("/proc") && Path::new("/dev/nvidiactl").exists())
}

/// Says of each process on a GPU which one of the task it is. The PID alone may be another namespace's; whoever computes
/// on a GPU holds a descriptor of it as well.
pub(crate) fn connect(gpus: &mut [Gpu], processes: &[Process]) {
    for on_gpu in gpus.iter_mut().flat_map(|gpu| &mut gpu.processes) {
        on_gpu.identity = processes
            .iter()
            .find(|process| u32::try_from(process.pid) == Ok(on_gpu.pid))
            .filter(|process| holds_a_gpu(process))
            .map(|process| process.identity);
    }
}

fn holds_a_gpu(process: &Process) -> bool {
    let mut descriptors = process.proc.file_descriptors.iter();
    descriptors.any(|descriptor| descriptor.target.starts_with("/dev/nvidia"))
}

/// Memory of the biggest users first.
fn in_order(processes: &mut [GpuProcess]) {
    processes.sort_by_key(|process| {
        let used = process.memory_used_bytes;
        (std::cmp::Reverse(used), process.pid, process.kind)
    });
}
