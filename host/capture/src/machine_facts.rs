//! The `machine` object of a snapshot.

use std::collections::BTreeMap;

use model::{Limit, MachineFacts, Snapshot};

use crate::gaps::GapList;
use crate::gpu::{self, GpuLook};
use crate::machine::Machine;
use crate::proc::status::kibibytes;
use crate::proc::{Reader, key_value, pressure, text};

/// Reads what is said of the machine as a whole.
pub(crate) fn read(machine: &Machine, reader: &mut Reader, gaps: &mut GapList) -> MachineFacts {
    let mut line = |name: &str| {
        let content = reader.read_path(&machine.proc.join(name)).map(text::line);
        gaps.keep(name, content)
    };
    let boot_id = line("sys/kernel/random/boot_id");
    let kernel_release = line("sys/kernel/osrelease");
    let load_average = line("loadavg").and_then(|line| load_average(&line));
    // Containers may show a `meminfo` with a few lines only: those we ask for are read by name.
    let memory = reader
        .read_path(&machine.proc.join("meminfo"))
        .map(key_value::parse);
    let memory = gaps.keep("meminfo", memory).unwrap_or_default();
    MachineFacts {
        architecture: architecture(),
        boot_id,
        clock_ticks_per_second: machine.clock_ticks_per_second,
        cpu_count: machine.cpu_count(reader),
        kernel_release,
        load_average,
        memory_available_bytes: bytes(&memory, "MemAvailable"),
        memory_dirty_bytes: bytes(&memory, "Dirty"),
        memory_free_bytes: bytes(&memory, "MemFree"),
        memory_total_bytes: bytes(&memory, "MemTotal"),
        memory_writeback_bytes: bytes(&memory, "Writeback"),
        page_size_bytes: machine.page_size_bytes,
        swap_free_bytes: bytes(&memory, "SwapFree"),
        swap_total_bytes: bytes(&memory, "SwapTotal"),
        // The rest follows from the other parts of a snapshot.
        ..MachineFacts::default()
    }
}

/// Fills in what follows from the other parts of `snapshot`: pressure, and the processors that the task may use.
pub(crate) fn complete(snapshot: &mut Snapshot) {
    let pressures = snapshot.cgroup.host_pressure.iter();
    snapshot.machine.pressure = pressures
        .filter_map(|(name, text)| Some((name.clone(), pressure::parse(text)?)))
        .collect();
    let root = snapshot.scope.as_ref().map(|scope| scope.root);
    let mut processes = snapshot.processes.iter();
    let allowed = processes
        .find(|process| Some(process.identity) == root)
        .and_then(|process| count(process.proc.allowed_cpus.as_ref()?));
    let limits = snapshot.cgroup.limits.as_ref();
    let quota = limits.and_then(|limits| {
        let cpu = limits.cpu.as_ref()?;
        let period = u32::try_from(cpu.period_usec?)
            .ok()
            .filter(|&period| period > 0)?;
        match cpu.quota_usec {
            Limit::At(quota) => Some(f64::from(u32::try_from(quota).ok()?) / f64::from(period)),
            Limit::Unknown | Limit::Unlimited => None,
        }
    });
    snapshot.machine.cpus_allowed = allowed;
    let allowed = allowed.map(f64::from);
    snapshot.machine.cpus_usable = match (allowed, quota) {
        (Some(allowed), Some(quota)) => Some(allowed.min(quota)),
        (allowed, quota) => allowed.or(quota),
    };
}

/// Puts what came of a look at the GPUs into `snapshot`; nothing where there was none.
pub(crate) fn put_gpus(snapshot: &mut Snapshot, look: Option<GpuLook>, gaps: &mut GapList) {
    let mut look = look.unwrap_or_default();
    gpu::connect(&mut look.gpus, &snapshot.processes);
    look.gaps.into_iter().for_each(|gap| gaps.add(gap));
    snapshot.machine.gpu_driver = look.driver;
    snapshot.machine.gpu_silent_since = look.silent_since;
    snapshot.machine.gpus = look.gpus;
}

/// How many CPUs a list such as `0-3,8` names.
fn count(list: &str) -> Option<u32> {
    let mut total: u32 = 0;
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        total = total.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(total)
}

/// The kernel's word; one kernel has one, whatever root we look at.
fn architecture() -> Option<String> {
    let name = rustix::system::uname();
    name.machine().to_str().ok().map(str::to_owned)
}

fn load_average(line: &str) -> Option<[String; 3]> {
    let mut words = line.split_ascii_whitespace().map(str::to_owned);
    Some([words.next()?, words.next()?, words.next()?])
}

fn bytes(memory: &BTreeMap<String, String>, name: &str) -> Option<u64> {
    kibibytes(memory.get(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_counted() {
        assert_eq!(count("0-3,8"), Some(5));
        assert_eq!(count("7"), Some(1));
        assert_eq!(count(""), None);
        assert_eq!(count("3-1"), None);
        assert_eq!(count("0-4294967295"), None);
    }
}
