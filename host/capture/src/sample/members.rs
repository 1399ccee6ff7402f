//! The processes of a sample: found, and read with files that stay open.

use std::collections::BTreeMap;
use std::io;

use model::{Gap, GapCode, ProcessId, ProcessSample};

use super::kept::{Keeper, Kept};
use crate::discover::{self, Look};
use crate::error::{CaptureError, gap_code, malformed};
use crate::family::Family;
use crate::gaps::GapList;
use crate::machine::Machine;
use crate::proc::status::kibibytes;
use crate::proc::{Reader, Stat, stat};
use crate::scope::Scope;

/// The processes of the task, and their files.
#[derive(Debug, Default)]
pub(super) struct Members {
    known: BTreeMap<ProcessId, Files>,
}

#[derive(Debug)]
struct Files {
    io: Kept,
    stat: Kept,
    status: Kept,
}

impl Members {
    /// Reads all processes of `scope`.
    pub(super) fn read(
        &mut self,
        machine: &Machine,
        scope: &mut Scope,
        keeper: &mut Keeper,
        look: Look,
        gaps: &mut Vec<Gap>,
    ) -> Result<Vec<ProcessSample>, CaptureError> {
        let family = Family::of(machine).map_err(|source| CaptureError::Unreadable {
            path: machine.proc.clone(),
            source,
        })?;
        let known = self.read_known(keeper);
        let found = discover::living(machine, family, scope, known, look, gaps);
        scope.reaping().compare(&found, look.began);
        self.keep(machine, keeper, &found);
        let processes = found
            .into_iter()
            .filter_map(|(id, stat)| self.process(machine, keeper, id, &stat, gaps));
        let processes: Vec<ProcessSample> = processes.collect();
        if processes.is_empty() {
            return Err(CaptureError::NothingLeft { root: scope.root });
        }
        Ok(processes)
    }

    /// Reads `stat` of the processes of the sample before.
    fn read_known(&mut self, keeper: &mut Keeper) -> BTreeMap<ProcessId, Stat> {
        let mut found = BTreeMap::new();
        for (&id, files) in &mut self.known {
            let content = keeper.read(&mut files.stat).ok();
            let stat = content.and_then(stat::parse);
            found.extend(stat.map(|stat| (id, stat)));
        }
        found
    }

    /// Forgets all processes but those that were `found`.
    fn keep(&mut self, machine: &Machine, keeper: &mut Keeper, found: &BTreeMap<ProcessId, Stat>) {
        let gone: Vec<ProcessId> = self.known.keys().copied().collect();
        for id in gone.into_iter().filter(|id| !found.contains_key(id)) {
            let files = self.known.remove(&id).expect("it was just listed");
            for kept in [files.io, files.stat, files.status] {
                keeper.forget(kept);
            }
        }
        for id in found.keys() {
            self.known.entry(*id).or_insert_with(|| {
                let directory = machine.proc.join(id.pid.to_string());
                Files {
                    io: Kept::below(&directory, "io"),
                    stat: Kept::below(&directory, "stat"),
                    status: Kept::below(&directory, "status"),
                }
            });
        }
    }

    /// Reads what `stat` does not say of a process; nothing where it has become another.
    fn process(
        &mut self,
        machine: &Machine,
        keeper: &mut Keeper,
        id: ProcessId,
        stat: &Stat,
        gaps: &mut Vec<Gap>,
    ) -> Option<ProcessSample> {
        let files = self.known.get_mut(&id)?;
        if stat.start_time_ticks != id.start_time_ticks {
            return None;
        }
        let mut process = ProcessSample {
            major_faults: stat.major_faults,
            minor_faults: stat.minor_faults,
            name: String::from_utf8_lossy(&stat.comm).into_owned(),
            ppid: stat.ppid,
            state: stat.state,
            stime_ticks: stat.stime_ticks,
            threads: stat.threads,
            utime_ticks: stat.utime_ticks,
            ..ProcessSample::of(id)
        };
        if !matches!(stat.state, 'Z' | 'X') {
            let mut list = GapList::of(id);
            let pages = stat.rss_pages;
            process.rss_bytes = pages.map(|pages| pages.saturating_mul(machine.page_size_bytes));
            let status = keeper
                .read(&mut files.status)
                .map(|it| switches_and_memory(it, &mut process));
            note(machine, &mut list, id, "status", status);
            let transfer = keeper
                .read(&mut files.io)
                .and_then(|content| transfers(content).ok_or_else(malformed));
            if let Some((read, written)) = note(machine, &mut list, id, "io", transfer) {
                process.read_bytes = Some(read);
                process.written_bytes = Some(written);
            }
            gaps.extend(list.finish());
        }
        Some(process)
    }
}

/// Returns what was read. A process that ended meanwhile leaves no gap, because its end is no secret; a file that a living one
/// lacks is one that this kernel does not have.
pub(super) fn note<T>(
    machine: &Machine,
    list: &mut GapList,
    id: ProcessId,
    what: &str,
    result: io::Result<T>,
) -> Option<T> {
    match result {
        Err(error) if gap_code(&error) == GapCode::Vanished => {
            if lives(machine, id) {
                list.add(Gap::new(what, GapCode::Unsupported));
            }
            None
        }
        result => list.keep(what, result),
    }
}

fn lives(machine: &Machine, id: ProcessId) -> bool {
    let path = machine.proc.join(id.pid.to_string()).join("stat");
    let mut reader = Reader::new();
    let stat = reader.read_path(&path).ok().and_then(stat::parse);
    stat.is_some_and(|stat| {
        stat.start_time_ticks == id.start_time_ticks && !matches!(stat.state, 'Z' | 'X')
    })
}

/// Puts what the lines of `/proc/PID/status` say into `process`.
fn switches_and_memory(content: &[u8], process: &mut ProcessSample) {
    for line in content.split(|&byte| byte == b'\n') {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            continue;
        };
        let value = || std::str::from_utf8(&line[colon + 1..]).ok().map(str::trim);
        match &line[..colon] {
            b"VmHWM" => process.peak_rss_bytes = value().and_then(kibibytes),
            b"VmSwap" => process.swap_bytes = value().and_then(kibibytes),
            b"voluntary_ctxt_switches" => {
                process.voluntary_switches = value().and_then(|it| it.parse().ok());
            }
            b"nonvoluntary_ctxt_switches" => {
                process.involuntary_switches = value().and_then(|it| it.parse().ok());
            }
            _ => {}
        }
    }
}

/// Returns `read_bytes` and `write_bytes` of `/proc/PID/io`.
fn transfers(content: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(content).ok()?;
    let number = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    Some((number("read_bytes:")?, number("write_bytes:")?))
}
