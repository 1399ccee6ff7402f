//! GPUs in a sample. A driver may take a second to answer, which no sample waits for: a thread asks, and a sample takes what came last.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use model::{Gap, GapCode, Gpu, GpuSample, Timestamp};

use crate::gpu::GpuLook;
use crate::machine::Machine;

/// An answer is taken over into so many samples; a driver that is silent for longer has no figures.
const SAMPLES_BELIEVED: u32 = 5;

/// Asks GPUs beside the samples.
#[derive(Debug)]
pub(super) struct GpuAsker {
    answers: Receiver<GpuLook>,
    /// For how many samples more the latest answer is taken.
    believed: u32,
    latest: GpuLook,
    questions: SyncSender<Timestamp>,
}

impl GpuAsker {
    /// Starts asking, if `machine` has GPUs to ask.
    pub(super) fn start(machine: &Arc<Machine>) -> Option<Self> {
        machine
            .gpus
            .as_ref()
            .filter(|gpus| gpus.is_there(&machine.proc))?;
        let (questions, asked) = sync_channel::<Timestamp>(1);
        let (answered, answers) = sync_channel(1);
        let machine = Arc::clone(machine);
        let ask = move || {
            while let Ok(now) = asked.recv() {
                let look = machine.gpus.as_ref().and_then(|it| it.read_beside(now));
                if look.is_some_and(|look| answered.send(look).is_err()) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("gpu-sampler".to_owned());
        thread.spawn(ask).ok()?;
        Some(Self {
            answers,
            believed: 0,
            latest: GpuLook::default(),
            questions,
        })
    }

    /// Returns what was last answered, and asks again.
    pub(super) fn take(&mut self, now: Timestamp, gaps: &mut Vec<Gap>) -> Vec<GpuSample> {
        match self.answers.try_recv() {
            Ok(look) => (self.latest, self.believed) = (look, SAMPLES_BELIEVED),
            Err(TryRecvError::Empty) => self.believed = self.believed.saturating_sub(1),
            Err(TryRecvError::Disconnected) => self.believed = 0,
        }
        _ = self.questions.try_send(now); // full: it is being asked
        if self.believed == 0 {
            let gap = Gap::new("gpus", GapCode::BlockedRead);
            gaps.push(gap.with_detail("the driver has not answered yet"));
            return Vec::new();
        }
        gaps.extend(self.latest.gaps.iter().cloned());
        self.latest.gpus.iter().map(sample).collect()
    }
}

fn sample(gpu: &Gpu) -> GpuSample {
    GpuSample {
        index: gpu.index,
        memory_total_bytes: gpu.memory_total_bytes,
        memory_used_bytes: gpu.memory_used_bytes,
        name: gpu.name.clone(),
        utilization_percent: gpu.utilization_percent,
    }
}
