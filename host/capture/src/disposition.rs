//! What a process does with a signal, from the masks of `/proc/PID/status`.

use model::ProcessId;

use crate::machine::Machine;
use crate::proc::{Reader, status};

/// What a process does with a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It has a handler.
    Handled,
    /// It ignores it.
    Ignored,
    /// It holds it back: the main thread blocks it.
    Blocked,
    /// What the kernel does by default.
    Default,
}

impl Machine {
    /// Returns what the process does with `signal`, by its number; nothing where that cannot be read.
    pub fn disposition(&self, id: ProcessId, signal: u32) -> Option<Disposition> {
        let path = self.proc.join(id.pid.to_string()).join("status");
        let mut reader = Reader::new();
        let status = status::parse(reader.read_path(&path).ok()?);
        // Whoever has the PID now: one that was used again is another process.
        (self.identify(id.pid).ok()? == id).then_some(())?;
        of(&status.lines, signal)
    }
}

fn of(lines: &std::collections::BTreeMap<String, String>, signal: u32) -> Option<Disposition> {
    let bit = 1_u64.checked_shl(signal.checked_sub(1)?)?;
    let has = |name: &str| {
        let mask = u64::from_str_radix(lines.get(name)?, 16).ok()?;
        Some(mask & bit != 0)
    };
    Some(match (has("SigBlk")?, has("SigIgn")?, has("SigCgt")?) {
        (_, true, _) => Disposition::Ignored,
        (true, ..) => Disposition::Blocked,
        (_, _, true) => Disposition::Handled,
        _ => Disposition::Default,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_masks_tell_what_becomes_of_a_signal() {
        let text = b"Name:\tx\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000000004\nSigCgt:\t0000000000004000\n";
        let lines = status::parse(text).lines;
        let told = [2, 3, 15, 9].map(|signal| of(&lines, signal).unwrap());
        let right = [
            Disposition::Blocked,
            Disposition::Ignored,
            Disposition::Handled,
            Disposition::Default,
        ];
        assert_eq!(told, right);
        assert_eq!(of(&status::parse(b"Name:\tx\n").lines, 15), None);
        assert_eq!(of(&lines, 0), None);
    }
}
