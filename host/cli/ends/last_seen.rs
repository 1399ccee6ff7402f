//! What a snapshot says of a process that its obituary will tell.

use std::collections::BTreeMap;

use model::{
    LastCpu, LastMemory, Obituary, Process, ProcessId, Snapshot, SnapshotId, Target, Timestamp,
    Trace, Value,
};

use crate::page::base_name;

/// Frames of a stack that are kept, from the innermost.
const FRAMES: usize = 32;

/// What was last known of a living process.
#[derive(Clone, Debug, Default)]
pub(super) struct LastSeen {
    pub(super) alive_at: Option<Timestamp>,
    /// `comm` at that time.
    pub(super) comm: String,
    pub(super) cpu: Option<LastCpu>,
    /// Open descriptors, and how many there may be.
    pub(super) descriptors: Option<(u64, u64)>,
    /// Whether a snapshot has shown it as what it is now, a Python program with its stack.
    pub(super) is_looked_at: bool,
    pub(super) memory: Option<LastMemory>,
    pub(super) name: String,
    pub(super) ppid: i32,
    pub(super) rank: Option<u64>,
    pub(super) role: Option<String>,
    pub(super) snapshot: Option<SnapshotId>,
    pub(super) stack: Option<(Timestamp, Trace)>,
}

impl LastSeen {
    /// Takes over what a newer look says; what it does not say stays.
    pub(super) fn update(&mut self, newer: Self) {
        let older = std::mem::replace(self, newer);
        self.alive_at = self.alive_at.or(older.alive_at);
        self.cpu = self.cpu.or(older.cpu);
        self.descriptors = self.descriptors.or(older.descriptors);
        self.memory = self.memory.or(older.memory);
        self.rank = self.rank.or(older.rank);
        self.role = self.role.take().or(older.role);
        self.stack = self.stack.take().or(older.stack);
        let is_same = self.comm.is_empty() || self.comm == older.comm;
        // Its command could not be read this time; the script is still the same one.
        if is_same && (self.name.is_empty() || self.name == self.comm) {
            (self.name, self.comm) = (older.name, older.comm);
        }
    }

    /// Notes its `comm` now. Another one means that it has become another program, or calls itself so.
    pub(super) fn is_called(&mut self, comm: &str) {
        if self.comm != comm {
            self.is_looked_at = false;
            comm.clone_into(&mut self.comm);
            comm.clone_into(&mut self.name);
        }
    }

    /// Puts it into an obituary, but nothing over what was read after the end.
    pub(super) fn put_into(&self, obituary: &mut Obituary) {
        obituary.cpu = obituary.cpu.filter(|cpu| cpu.is_final).or(self.cpu);
        obituary.last_snapshot = self.snapshot.or(obituary.last_snapshot);
        obituary.memory = self.memory.or(obituary.memory);
        obituary.rank = self.rank.or(obituary.rank);
        obituary.role = self.role.clone().or(obituary.role.take());
        if let Some((at, stack)) = &self.stack {
            (obituary.stack, obituary.stack_at) = (Some(stack.clone()), Some(*at));
        }
        // A look that began before the end may have found a zombie, which has no command any more.
        if obituary.name.is_empty() || (!self.name.is_empty() && self.name != self.comm) {
            obituary.name.clone_from(&self.name);
        }
        if self.ppid != 0 {
            obituary.ppid = self.ppid;
        }
    }
}

/// Returns what `snapshot` says of each process.
pub(super) fn of(snapshot: &Snapshot) -> impl Iterator<Item = (ProcessId, LastSeen)> {
    let mut notes = BTreeMap::<ProcessId, (Option<u64>, Option<String>)>::new();
    for annotation in &snapshot.annotations {
        let Target::Process(process) = annotation.target else {
            continue;
        };
        let (rank, role) = notes.entry(process).or_default();
        match (annotation.key.as_str(), &annotation.value) {
            ("rank", Value::Number(number)) => *rank = whole(*number),
            ("role", Value::Text(text)) => *role = Some(text.clone()),
            _ => {}
        }
    }
    snapshot.processes.iter().map(move |process| {
        let (rank, role) = notes.remove(&process.identity).unwrap_or_default();
        let seen = last_seen(snapshot, process);
        (process.identity, LastSeen { rank, role, ..seen })
    })
}

fn last_seen(snapshot: &Snapshot, process: &Process) -> LastSeen {
    let at = snapshot.capture.started_at;
    let milliseconds =
        |ticks: u64| ticks.saturating_mul(1000) / snapshot.machine.clock_ticks_per_second.max(1);
    let proc = &process.proc;
    let is_zombie = matches!(process.state, 'Z' | 'X');
    let ticks = proc.utime_ticks.zip(proc.stime_ticks);
    let stack = main_stack(process, at);
    // Where no stacks are read at all none is missing.
    let lacks_stack = process.python_candidate && process.pyspy.is_some() && stack.is_none();
    LastSeen {
        alive_at: (!is_zombie).then_some(at),
        comm: comm(process),
        cpu: ticks.map(|(user, system)| LastCpu {
            is_final: false,
            system_ms: milliseconds(system),
            user_ms: milliseconds(user),
        }),
        // A zombie has none left.
        descriptors: file_limit(&proc.limits)
            .filter(|_| !is_zombie)
            .map(|limit| (proc.file_descriptors.len() as u64, limit)),
        is_looked_at: !lacks_stack,
        // Nor has one that is about to be one.
        memory: process
            .memory
            .as_ref()
            .filter(|memory| memory.rss_bytes > 0)
            .map(|memory| LastMemory {
                at,
                peak_rss_bytes: memory.peak_rss_bytes,
                rss_bytes: memory.rss_bytes,
            }),
        name: name(process),
        ppid: process.ppid,
        rank: None,
        role: None,
        snapshot: Some(snapshot.capture.id),
        stack,
    }
}

/// The stack of the main thread, or of the only one that is known.
fn main_stack(process: &Process, at: Timestamp) -> Option<(Timestamp, Trace)> {
    let stacks = process.pyspy.as_ref()?;
    let main = |trace: &&Trace| {
        let is_first = trace.os_thread_id.map(i128::from) == Some(i128::from(process.pid));
        is_first || trace.thread_name.as_deref() == Some("MainThread")
    };
    let trace = stacks.traces.iter().find(main).or(stacks.traces.first())?;
    let mut trace = trace.clone();
    trace.frames.truncate(FRAMES);
    Some((at, trace))
}

fn comm(process: &Process) -> String {
    process.proc.status.get("Name").cloned().unwrap_or_default()
}

/// The script or module of a Python program, else `comm`.
pub(super) fn name(process: &Process) -> String {
    let comm = comm(process);
    if !process.python_candidate {
        return comm;
    }
    let mut words = process.cmdline.iter().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-m" => return words.next().cloned().unwrap_or(comm),
            "-c" => return comm,
            // These take a value.
            "-W" | "-X" => _ = words.next(),
            word if word.starts_with('-') => {}
            script => return base_name(script).to_owned(),
        }
    }
    comm
}

/// The soft limit of a line such as `Max open files            1024                 4096                 files`.
fn file_limit(limits: &[String]) -> Option<u64> {
    let line = limits
        .iter()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The number, where it is a whole one that fits.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "it is checked to come back the same"
)]
fn whole(number: f64) -> Option<u64> {
    let whole = number as u64;
    ((whole as f64).to_bits() == number.to_bits()).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_keeps_its_name_while_its_command_cannot_be_read() {
        let named = |name: &str, comm: &str| LastSeen {
            name: name.to_owned(),
            comm: comm.to_owned(),
            ..LastSeen::default()
        };
        let mut seen = named("train.py", "python3");
        seen.update(named("python3", "python3"));
        assert_eq!(seen.name, "train.py");
        seen.update(LastSeen::default());
        assert_eq!(seen.name, "train.py");
        // It has become another program.
        seen.update(named("sleep", "sleep"));
        assert_eq!(seen.name, "sleep");
    }

    #[test]
    fn ranks_are_whole_numbers() {
        assert_eq!(whole(3.0), Some(3));
        assert_eq!(
            (whole(0.5), whole(-1.0), whole(f64::NAN)),
            (None, None, None)
        );
    }

    #[test]
    fn the_limit_of_open_files_is_the_soft_one() {
        let lines =
            ["Max open files            1024                 4096                 files     "];
        assert_eq!(file_limit(&lines.map(str::to_owned)), Some(1024));
        let lines =
            ["Max open files            unlimited            unlimited            files     "];
        assert_eq!(file_limit(&lines.map(str::to_owned)), None);
    }
}
