//! Which signals a process catches, as `SigCgt` of its status tells.

use model::Process;

/// Signals that a process catches without a purpose of the job: what Python, its fault handler and the C library catch, and that
/// children have ended (signal(7)).
const USUAL: u64 = bits(&[2, 4, 6, 7, 8, 11, 17, 32, 33]);

const fn bits(signals: &[u32]) -> u64 {
    let (mut mask, mut index) = (0, 0);
    while index < signals.len() {
        mask |= 1 << (signals[index] - 1);
        index += 1;
    }
    mask
}

fn caught(process: &Process) -> Option<u64> {
    let mask = process.proc.status.get("SigCgt")?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// Whether no signal is meant to wake a process.
pub(crate) fn is_deaf(process: &Process) -> bool {
    caught(process).is_some_and(|mask| mask & !USUAL == 0)
}

/// Whether a process catches this signal; no where that is not known.
pub(crate) fn catches(process: &Process, signal: u32) -> bool {
    caught(process).is_some_and(|mask| mask & bits(&[signal]) != 0)
}
