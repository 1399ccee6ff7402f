//! `telemetry.jsonl` in the run directory: a line for a sample, in the form that flashruntime's viewer reads.
//!
//! At [`MOST_BYTES`] the file becomes `telemetry.jsonl.1`, in place of the one before, so both together are bounded.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{GpuSample, MachineSample, ProcessId, ProcessSample, Sample, Snapshot};
use monitor::{About, Reading};
use serde::Serialize;
use tracing::warn;

#[cfg(test)]
mod tests;

/// The file's name.
const NAME: &str = "telemetry.jsonl";
/// A file is rotated when it is larger.
const MOST_BYTES: u64 = 8 << 20;
/// Between two lines at least.
const INTERVAL: Duration = Duration::from_secs(2);
/// Words of a command.
const MOST_WORDS: usize = 3;

/// Writes telemetry.
#[derive(Debug)]
pub(crate) struct Telemetry {
    clock_ticks_per_second: u64,
    hostname: String,
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    commands: BTreeMap<ProcessId, String>,
    /// When the last line was written, after the start of the collector, and what each process had used by then.
    last: Option<(Duration, BTreeMap<ProcessId, u64>)>,
    in_trouble: bool,
}

#[derive(Serialize)]
struct Line {
    ts: f64,
    machine: MachineRow,
    processes: Vec<ProcessRow>,
}

#[derive(Serialize)]
struct MachineRow {
    hostname: String,
    cpu_count: Option<u32>,
    load_avg: Option<[f64; 3]>,
    cpu_percent: Option<f64>,
    mem_total: Option<u64>,
    mem_used: Option<u64>,
    gpus: Vec<GpuRow>,
    limited: bool,
}

#[derive(Serialize)]
struct GpuRow {
    name: String,
    util_percent: f64,
    mem_used_mb: f64,
    mem_total_mb: f64,
}

#[derive(Serialize)]
struct ProcessRow {
    pid: i32,
    ppid: i32,
    cmd: String,
    cpu_percent: Option<f64>,
    rss_bytes: Option<u64>,
    create_time: Option<f64>,
    status: &'static str,
}

impl Telemetry {
    /// Writes into `directory`, which is made where it is not there.
    pub(crate) fn new(directory: &Path, about: &About) -> Self {
        Self {
            clock_ticks_per_second: about.clock_ticks_per_second,
            hostname: about.task.host.clone(),
            path: directory.join(NAME),
            state: Mutex::default(),
        }
    }

    /// Notes the commands of the processes of `snapshot`, in which secrets are replaced.
    pub(crate) fn note(&self, snapshot: &Snapshot) {
        let commands = snapshot.processes.iter().map(|process| {
            let words = process.cmdline.iter().take(MOST_WORDS);
            let words: Vec<&str> = words.map(String::as_str).collect();
            (process.identity, words.join(" "))
        });
        self.state().commands = commands.filter(|(_, it)| !it.is_empty()).collect();
    }

    /// Writes a line of `sample` and what it says, if the last one is long enough ago. Trouble is a warning, once until it heals.
    pub(crate) fn write(&self, sample: &Sample, reading: &Reading, elapsed: Duration) {
        let mut state = self.state();
        let last = state.last.take();
        let is_due = |(at, _): &(Duration, _)| elapsed + INTERVAL / 10 >= *at + INTERVAL;
        if last.as_ref().is_some_and(|last| !is_due(last)) {
            state.last = last;
            return;
        }
        let used = |it: &ProcessSample| it.utime_ticks + it.stime_ticks;
        let row = |process: &ProcessSample| {
            let known = last.as_ref().and_then(|(at, ticks)| {
                Some((elapsed.saturating_sub(*at), ticks.get(&process.identity)?))
            });
            let percent = known.and_then(|(time, before)| {
                self.percent(used(process).saturating_sub(*before), time)
            });
            self.row(process, &state.commands, percent, sample)
        };
        let line = Line {
            ts: seconds(sample.at),
            machine: self.machine(&sample.machine, reading, &sample.gpus),
            processes: in_order(sample).into_iter().map(row).collect(),
        };
        let ticks = sample.processes.iter().map(|it| (it.identity, used(it)));
        state.last = Some((elapsed, ticks.collect()));
        let written = self.append(&line);
        match (&written, state.in_trouble) {
            (Err(error), false) => {
                let path = self.path.display();
                warn!(%path, %error, "Telemetry cannot be written; it is tried again.");
            }
            (Ok(()), true) => warn!(path = %self.path.display(), "Telemetry is written again."),
            _ => {}
        }
        state.in_trouble = written.is_err();
    }

    fn percent(&self, ticks: u64, time: Duration) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "no process uses 2^53 ticks")]
        let used = ticks as f64 / self.clock_ticks_per_second as f64;
        let percent = (used / time.as_secs_f64() * 1e3).round() / 10.0;
        percent.is_finite().then_some(percent)
    }

    fn row(
        &self,
        process: &ProcessSample,
        commands: &BTreeMap<ProcessId, String>,
        cpu_percent: Option<f64>,
        sample: &Sample,
    ) -> ProcessRow {
        let id = process.identity;
        #[expect(clippy::cast_precision_loss, reason = "no machine runs for 2^53 ticks")]
        let started = id.start_time_ticks as f64 / self.clock_ticks_per_second as f64;
        let boot = sample
            .machine
            .uptime_seconds
            .map(|up| seconds(sample.at) - up);
        ProcessRow {
            pid: id.pid,
            ppid: process.ppid,
            cmd: commands.get(&id).unwrap_or(&process.name).clone(),
            cpu_percent,
            rss_bytes: process.rss_bytes,
            create_time: boot.map(|boot| ((boot + started) * 100.0).round() / 100.0),
            status: status(process.state),
        }
    }

    fn machine(
        &self,
        machine: &MachineSample,
        reading: &Reading,
        gpus: &[GpuSample],
    ) -> MachineRow {
        let (total, available) = (machine.memory_total_bytes, machine.memory_available_bytes);
        MachineRow {
            hostname: self.hostname.clone(),
            cpu_count: machine.cpu_count,
            load_avg: machine.load_average,
            cpu_percent: reading.machine_cpu_percent,
            mem_total: total,
            mem_used: total
                .zip(available)
                .map(|(total, available)| total.saturating_sub(available)),
            gpus: gpus.iter().filter_map(gpu).collect(),
            limited: false,
        }
    }

    fn append(&self, line: &Line) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let open = || File::options().create(true).append(true).open(&self.path);
        let mut file = match open() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                fs::create_dir_all(self.path.parent().unwrap_or(Path::new(".")))?;
                open()?
            }
            other => other?,
        };
        if file.metadata()?.len() > MOST_BYTES {
            fs::rename(&self.path, self.path.with_extension("jsonl.1"))?;
            file = open()?;
        }
        file.write_all(&text)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The main process first, then the others by PID.
fn in_order(sample: &Sample) -> Vec<&ProcessSample> {
    let mut processes: Vec<&ProcessSample> = sample.processes.iter().collect();
    processes.sort_by_key(|it| (it.identity != sample.root, it.identity));
    processes
}

/// One that does not tell all has no row: the form has no word for "not known".
fn gpu(gpu: &GpuSample) -> Option<GpuRow> {
    #[expect(clippy::cast_precision_loss, reason = "no GPU has 2^53 bytes")]
    let mebibytes = |bytes: u64| (bytes as f64 / 1_048_576.0).round();
    Some(GpuRow {
        name: gpu.name.clone()?,
        util_percent: f64::from(gpu.utilization_percent?),
        mem_used_mb: mebibytes(gpu.memory_used_bytes?),
        mem_total_mb: mebibytes(gpu.memory_total_bytes?),
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "microseconds of this millennium are below 2^53"
)]
fn seconds(at: model::Timestamp) -> f64 {
    at.as_microseconds() as f64 / 1e6
}

/// The words of psutil.
fn status(state: char) -> &'static str {
    match state {
        'R' => "running",
        'S' => "sleeping",
        'D' => "disk-sleep",
        'T' => "stopped",
        't' => "tracing-stop",
        'Z' => "zombie",
        'X' | 'x' => "dead",
        'K' => "wake-kill",
        'W' => "waking",
        'I' => "idle",
        'P' => "parked",
        _ => "unknown",
    }
}
