//! Whether GPUs can be read.

use model::{GapCode, Timestamp};

use super::remedy::{GPU_LIBRARY, GPU_VERSIONS};
use super::{Right, RightName};
use crate::machine::Machine;

/// Asks the GPUs of `machine`, for about a second at most; nothing where there is no sign of a driver.
pub fn try_gpus(machine: &Machine, now: Timestamp) -> Option<Right> {
    let right = RightName::Gpus;
    let look = machine.gpus.as_ref()?.read(&machine.proc, now)?;
    let refusal = look.gaps.iter().find(|gap| gap.what == "gpus");
    let Some(gap) = refusal else {
        let driver = look.driver.as_deref().unwrap_or("unknown");
        let count = look.gpus.len();
        let detail = format!("{count} GPUs were asked; version of the driver: {driver}");
        return Some(Right::holds(right, detail));
    };
    let detail = gap.detail.clone().unwrap_or_default();
    // A busy machine says nothing of rights.
    if gap.code == GapCode::TimedOut {
        return Some(Right::unknown(right, detail));
    }
    let remedies = [GPU_LIBRARY, GPU_VERSIONS];
    let remedy = remedies
        .into_iter()
        .find(|remedy| Some(remedy.sentence) == gap.remedy.as_deref());
    Some(Right::lost(right, detail, remedy))
}
