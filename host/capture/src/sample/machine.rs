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

    /// Returns the load averages, and the PID that was given last, where that counts.
    pub(super) fn load(
        &mut self,
        machine: &Machine,
        keeper: &mut Keeper,
    ) -> (Option<[f64; 3]>, Option<i32>) {
        let Ok(content) = keeper.read(&mut self.load) else {
            return (None, None);
        };
        let last = machine.last_pid_of(content);
        let text = String::from_utf8_lossy(content);
        let mut words = text.split_ascii_whitespace().map(|word| word.parse().ok());
        let averages = [words.next(), words.next(), words.next()].map(Option::flatten);
        let [Some(one), Some(five), Some(fifteen)] = averages else {
            return (None, last);
        };
        (Some([one, five, fifteen]), last)
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
