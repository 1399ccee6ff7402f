//! The GPUs: how busy each is, its memory, and which processes of the task use it.

use std::fmt::Write as _;

use model::{Gpu, GpuProcess, GpuTrouble, ProcessId, Snapshot};

use super::text::safe;
use super::{Notes, table};

/// What slows a GPU down without being asked to.
const HELD_BACK: [&str; 4] = [
    "hw_power_brake_slowdown",
    "hw_slowdown",
    "hw_thermal_slowdown",
    "sw_thermal_slowdown",
];

/// Returns the section, empty where there is no GPU.
pub(super) fn section(snapshot: &Snapshot) -> String {
    let gpus = &snapshot.machine.gpus;
    if gpus.is_empty() {
        return String::new();
    }
    let notes = Notes::of(snapshot);
    let head = ["GPU", "BUSY", "MEMORY", "POWER", "HEAT", "PROCESSES"].map(str::to_owned);
    let rows = gpus.iter().map(|gpu| row(gpu, &notes));
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    let mut section = format!("\n{}", table::align(&rows));
    for gpu in gpus {
        let reasons = gpu.throttle_reasons.iter().map(String::as_str);
        let held: Vec<&str> = reasons
            .filter(|reason| HELD_BACK.contains(reason))
            .collect();
        if !held.is_empty() {
            let (index, held) = (gpu.index, held.join(", "));
            _ = writeln!(section, "GPU {index} is held back: {held}");
        }
    }
    section
}

/// Returns the GPUs that a process uses, each with the memory that it takes there.
pub(super) fn of_process(snapshot: &Snapshot, process: ProcessId) -> Option<String> {
    let gpus = snapshot.machine.gpus.iter();
    let used = gpus.flat_map(|gpu| {
        let on_it = gpu.processes.iter();
        let is_it = move |one: &&GpuProcess| one.identity == Some(process);
        on_it
            .filter(is_it)
            .map(|one| format!("{} ({})", gpu.index, bytes(one.memory_used_bytes)))
    });
    let used: Vec<String> = used.collect();
    (!used.is_empty()).then(|| used.join(", "))
}

fn row(gpu: &Gpu, notes: &Notes<'_>) -> [String; 6] {
    let name = gpu.name.as_deref().map_or_else(String::new, safe);
    let share = |share: Option<u32>| share.map_or_else(|| "?".to_owned(), |it| format!("{it} %"));
    [
        format!("{}  {name}", gpu.index),
        match gpu.trouble {
            Some(GpuTrouble::Lost) => "lost".to_owned(),
            Some(GpuTrouble::ResetRequired) => "needs a reset".to_owned(),
            None => share(gpu.utilization_percent),
        },
        match (gpu.memory_used_bytes, gpu.memory_total_bytes) {
            (None, None) => "?".to_owned(),
            (used, total) => format!("{} of {}", bytes(used), bytes(total)),
        },
        gpu.power_milliwatts
            .map_or_else(|| "-".to_owned(), |power| format!("{} W", power / 1000)),
        gpu.temperature_celsius
            .map_or_else(|| "-".to_owned(), |heat| format!("{heat} °C")),
        processes(gpu, notes),
    ]
}

fn processes(gpu: &Gpu, notes: &Notes<'_>) -> String {
    let (ours, others): (Vec<&GpuProcess>, Vec<&GpuProcess>) =
        gpu.processes.iter().partition(|one| one.identity.is_some());
    let mut words: Vec<String> = ours.iter().map(|one| of_task(one, notes)).collect();
    if !others.is_empty() {
        let pids: Vec<String> = others.iter().map(|one| one.pid.to_string()).collect();
        words.push(format!("not of the task: {}", pids.join(", ")));
    }
    words.join("; ")
}

fn of_task(on_gpu: &GpuProcess, notes: &Notes<'_>) -> String {
    let part = on_gpu.identity.map(|id| notes.part(id)).unwrap_or_default();
    let part = if part.is_empty() {
        part
    } else {
        format!(" ({part})")
    };
    let used = on_gpu.memory_used_bytes.map(table::bytes);
    let used = used.map(|used| format!(" {used}")).unwrap_or_default();
    format!("{}{part}{used}", on_gpu.pid)
}

fn bytes(count: Option<u64>) -> String {
    count.map_or_else(|| "?".to_owned(), table::bytes)
}

#[cfg(test)]
mod tests {
    use model::{Gpu, GpuProcess, GpuProcessKind, GpuTrouble};

    use super::{of_process, section};
    use crate::page::tests::snapshot;

    fn process(pid: i32, identity: Option<&str>, gib: Option<u64>) -> GpuProcess {
        GpuProcess {
            identity: identity.map(|identity| identity.parse().unwrap()),
            kind: GpuProcessKind::Compute,
            memory_used_bytes: gib.map(|gib| gib << 30),
            pid: pid.unsigned_abs(),
        }
    }

    #[test]
    fn each_gpu_is_a_line_with_what_is_known() {
        let mut snapshot = snapshot();
        assert_eq!(section(&snapshot), "");
        let busy = Gpu {
            memory_total_bytes: Some(80 << 30),
            memory_used_bytes: Some(70 << 30),
            name: Some("NVIDIA H100".to_owned()),
            power_milliwatts: Some(612_345),
            processes: vec![
                process(101, Some("101:5"), Some(66)),
                process(102, Some("102:5"), None),
                process(4242, None, Some(2)),
            ],
            temperature_celsius: Some(64),
            throttle_reasons: vec!["gpu_idle".to_owned(), "hw_thermal_slowdown".to_owned()],
            utilization_percent: Some(97),
            ..Gpu::default()
        };
        let lost = Gpu {
            index: 1,
            trouble: Some(GpuTrouble::Lost),
            ..Gpu::default()
        };
        snapshot.machine.gpus = vec![busy, lost];
        let expected = "
GPU             BUSY  MEMORY                POWER  HEAT   PROCESSES
0  NVIDIA H100  97 %  70.0 GiB of 80.0 GiB  612 W  64 °C  101 (rank 0) 66.0 GiB; 102 (rank 1); not of the task: 4242
1               lost  ?                     -      -
GPU 0 is held back: hw_thermal_slowdown
";
        assert_eq!(section(&snapshot), expected);
        let id = snapshot.processes[1].identity;
        assert_eq!(of_process(&snapshot, id).as_deref(), Some("0 (66.0 GiB)"));
        assert_eq!(of_process(&snapshot, snapshot.processes[0].identity), None);
    }
}
