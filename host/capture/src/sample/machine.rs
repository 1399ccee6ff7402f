//! The machine, in a sample.

use std::collections::BTreeMap;

use model::{MachineSample, Pressure};

use super::kept::{Keeper, Kept};
use crate::machine::Machine;
use crate::proc::{Reader, pressure, status};

/// The files that are read of the machine.
#[derive(Debug)]
pub(super) struct MachineFiles {
    load: Kept,
    memory: Kept,
    /// By name; those that the kernel has.
    pressure: BTreeMap<&'static str, Kept>,
    uptime: Kept,
}

impl MachineFiles {
    pub(super) fn of(machine: &Machine) -> Self {
        let file = |name: &str| Kept::below(&machine.proc, name);
        Self {
            load: file("loadavg"),
            memory: file("meminfo"),
            pressure: ["cpu", "io", "memory"]
                .into_iter()
                .map(|name| (name, file(&format!("pressure/{name}"))))
                .collect(),
            uptime: file("uptime"),
        }
    }

    /// Returns the load averages, and the number of the PID that was given last: the fifth word of `/proc/loadavg`. A recording does
    /// not count, so it has no such number.
    pub(super) fn load(&mut self, keeper: &mut Keeper) -> (Option<[f64; 3]>, Option<String>) {
        let Ok(content) = keeper.read(&mut self.load) else {
            return (None, None);
        };
        let text = String::from_utf8_lossy(content).into_owned();
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let average = |at: usize| words.get(at)?.parse().ok();
        let averages = [average(0), average(1), average(2)];
        let averages = match averages {
            [Some(one), Some(five), Some(fifteen)] => Some([one, five, fifteen]),
            _ => None,
        };
        let last = words.get(4).filter(|_| self.load.is_open());
        (averages, last.map(|&word| word.to_owned()))
    }

    /// Reads the rest.
    pub(super) fn read(&mut self, machine: &Machine, keeper: &mut Keeper) -> MachineSample {
        let mut sample = MachineSample {
            cpu_count: machine.cpu_count(&mut Reader::new()),
            ..MachineSample::default()
        };
        if let Ok(content) = keeper.read(&mut self.uptime) {
            let text = String::from_utf8_lossy(content);
            let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
            sample.uptime_seconds = numbers.next().flatten();
            sample.idle_seconds = numbers.next().flatten();
        }
        if let Ok(content) = keeper.read(&mut self.memory) {
            let text = String::from_utf8_lossy(content);
            let value = |name: &str| {
                let mut lines = text.lines();
                lines.find_map(|line| status::kibibytes(line.strip_prefix(name)?.trim()))
            };
            sample.memory_available_bytes = value("MemAvailable:");
            sample.memory_total_bytes = value("MemTotal:");
        }
        sample.pressure = self.pressures(keeper);
        sample
    }

    fn pressures(&mut self, keeper: &mut Keeper) -> BTreeMap<String, Pressure> {
        let mut pressures = BTreeMap::new();
        // A kernel without pressure figures has no such files, or refuses: it is not asked again.
        self.pressure.retain(|name, kept| {
            let Ok(content) = keeper.read(kept) else {
                return false;
            };
            let pressure = pressure::parse(&String::from_utf8_lossy(content));
            pressures.extend(pressure.map(|pressure| ((*name).to_owned(), pressure)));
            true
        });
        pressures
    }
}
