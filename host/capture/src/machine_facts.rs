//! The `machine` object of a snapshot.

use std::collections::BTreeMap;

use model::MachineFacts;

use crate::gaps::GapList;
use crate::machine::Machine;
use crate::proc::status::kibibytes;
use crate::proc::{Reader, key_value, text};

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
        boot_id,
        clock_ticks_per_second: machine.clock_ticks_per_second,
        cpu_count: machine.cpu_count(reader),
        kernel_release,
        load_average,
        memory_available_bytes: bytes(&memory, "MemAvailable"),
        memory_total_bytes: bytes(&memory, "MemTotal"),
        page_size_bytes: machine.page_size_bytes,
    }
}

fn load_average(line: &str) -> Option<[String; 3]> {
    let mut words = line.split_ascii_whitespace().map(str::to_owned);
    Some([words.next()?, words.next()?, words.next()?])
}

fn bytes(memory: &BTreeMap<String, String>, name: &str) -> Option<u64> {
    kibibytes(memory.get(name)?)
}
