//! What is left of a process that has ended, until its parent has taken its status: `/proc/PID/stat` of a zombie.

use model::{Ending, LastCpu, ProcessId};

use crate::machine::Machine;
use crate::proc::{Reader, Stat, stat};

/// What a zombie still says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    /// All the CPU time that it used.
    pub cpu: LastCpu,
    /// How it ended; unknown where we may not be told.
    pub ending: Ending,
    /// `comm`; what is no text is U+FFFD.
    pub name: String,
}

/// Reads what is left of `process`; nothing where it lives, or is gone. Three small reads at most, which take no lock of its
/// memory.
pub fn remains(machine: &Machine, process: ProcessId) -> Option<Remains> {
    let mut reader = Reader::new();
    let stat = stat_of(machine, process, &mut reader)?;
    if !matches!(stat.state, 'Z' | 'X') {
        return None;
    }
    let status = stat.wait_status.unwrap_or(0);
    // Who may not look into it is told 0 as well, and may not read `io` either.
    let io = machine.proc.join(process.pid.to_string()).join("io");
    let is_told = status != 0
        || reader
            .read_path(&io)
            .is_ok_and(|content| !content.is_empty());
    let milliseconds =
        |ticks: u64| ticks.saturating_mul(1000) / machine.clock_ticks_per_second.max(1);
    Some(Remains {
        cpu: LastCpu {
            is_final: true,
            system_ms: milliseconds(stat.stime_ticks),
            user_ms: milliseconds(stat.utime_ticks),
        },
        ending: if is_told && stat.wait_status.is_some() {
            Ending::from_wait_status(status)
        } else {
            Ending::Unknown
        },
        name: String::from_utf8_lossy(&stat.comm).into_owned(),
    })
}

/// Whether `process` is still there, as a zombie at least.
pub fn is_there(machine: &Machine, process: ProcessId) -> bool {
    stat_of(machine, process, &mut Reader::new()).is_some()
}

fn stat_of(machine: &Machine, process: ProcessId, reader: &mut Reader) -> Option<Stat> {
    let path = machine.proc.join(process.pid.to_string()).join("stat");
    let stat = stat::parse(reader.read_path(&path).ok()?)?;
    (stat.start_time_ticks == process.start_time_ticks).then_some(stat)
}
