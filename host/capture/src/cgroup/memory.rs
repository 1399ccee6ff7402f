//! Memory of the cgroups of one process, read alone: how many were killed for want of it, and how much room is left. Cheap enough
//! to be asked several times a second, beside captures.

use std::path::{Path, PathBuf};

use model::{CgroupMemory, Limit, ProcessId};

use super::chain;
use super::numbers::{self, Files};
use crate::gaps::GapList;
use crate::machine::Machine;
use crate::proc::status::kibibytes;
use crate::proc::{Reader, key_value, stat, text};

/// Files of each level, as [`MemoryCgroup::names`] has them.
const LEVEL_1: [&str; 3] = [
    "memory.usage_in_bytes",
    "memory.limit_in_bytes",
    "memory.max_usage_in_bytes",
];
const LEVEL_2: [&str; 3] = ["memory.current", "memory.max", "memory.peak"];

/// Where killed processes are counted, of this cgroup alone where the kernel keeps that apart (version 2 since Linux 5.2;
/// version 1 since Linux 4.13).
const KILLS: [&str; 3] = ["memory.events.local", "memory.events", "memory.oom_control"];

/// The cgroup of a process that counts its memory, and those above it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemoryCgroup {
    /// Innermost first; never empty.
    directories: Vec<PathBuf>,
    version: u32,
}

/// Memory that can be had up to a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRoom {
    /// The limit; of the machine, all of its memory.
    pub limit_bytes: u64,
    /// The cgroup with the limit; absent for the machine itself.
    pub path: Option<String>,
    /// The most that was ever used; absent where the kernel does not keep it.
    pub peak_bytes: Option<u64>,
    /// What is used, file pages that can be given up with it.
    pub usage_bytes: u64,
}

impl MemoryRoom {
    /// Whether nothing was left at some time: it was used to 95 % or more.
    pub fn ran_out(&self) -> bool {
        self.most() >= self.limit_bytes / 100 * 95
    }

    /// Returns the most that is known to have been used.
    pub fn most(&self) -> u64 {
        self.peak_bytes.unwrap_or(0).max(self.usage_bytes)
    }
}

impl MemoryCgroup {
    /// Returns that of `process`; none where no cgroup that counts memory is visible, or the process is gone or on its way out: of
    /// such a one version 1 says that it is in the root.
    pub fn of(machine: &Machine, process: ProcessId) -> Option<Self> {
        let path = machine.proc.join(process.pid.to_string()).join("cgroup");
        let mut reader = Reader::new();
        let lines = text::lines(reader.read_path(&path).ok()?);
        let (hierarchy, directory) = chain::directories(machine.hierarchies(), &lines)
            .into_iter()
            .find(|(hierarchy, _)| hierarchy.version == 2 || hierarchy.has("memory"))?;
        let directories = chain::upwards(hierarchy, &directory);
        if hierarchy.version == 1 && directories.len() == 1 {
            let path = machine.proc.join(process.pid.to_string()).join("stat");
            let stat = stat::parse(reader.read_path(&path).ok()?)?;
            if stat.exiting || stat.start_time_ticks != process.start_time_ticks {
                return None;
            }
        }
        Some(Self {
            directories,
            version: hierarchy.version,
        })
    }

    /// Returns its directory.
    pub fn path(&self) -> &Path {
        &self.directories[0]
    }

    /// Returns how many processes in it were killed for want of memory, since it was made: by its own limit, that of a cgroup above,
    /// or because the machine ran out.
    pub fn kills(&self) -> Option<u64> {
        let mut reader = Reader::new();
        KILLS.iter().find_map(|name| {
            let content = reader.read_path(&self.path().join(name)).ok()?;
            let content = std::str::from_utf8(content).ok()?;
            let mut lines = content.lines();
            lines.find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
        })
    }

    /// Returns the level that is nearest to its limit; none where no level has one that can be read.
    pub fn tightest(&self) -> Option<MemoryRoom> {
        let levels = self.directories.iter();
        let rooms = levels.filter_map(|directory| {
            let [used, limit, most] = self.names();
            // Most levels have none, and to ask what they use costs more.
            self.read(directory, &[limit])?.limit_bytes.number()?;
            let memory = self.read(directory, &[used, limit, most])?;
            Some(MemoryRoom {
                limit_bytes: memory.limit_bytes.number()?,
                path: Some(directory.display().to_string()),
                peak_bytes: memory.peak_bytes,
                usage_bytes: memory.usage_bytes?,
            })
        });
        rooms.min_by_key(|room| room.limit_bytes.saturating_sub(room.usage_bytes))
    }

    /// Returns how much of the usage of the cgroup at `path`, one of these, is file pages that can be given up.
    pub fn reclaimable(&self, path: &str) -> Option<u64> {
        let directory = self
            .directories
            .iter()
            .find(|one| one.as_path() == Path::new(path))?;
        let [_, limit, _] = self.names();
        let memory = self.read(directory, &[limit, "memory.stat"])?;
        // Shared memory is counted among file pages and has nowhere to go.
        Some(
            memory
                .file_bytes?
                .saturating_sub(memory.shmem_bytes.unwrap_or(0)),
        )
    }

    /// What a level uses, its limit and the most that it used.
    fn names(&self) -> [&'static str; 3] {
        if self.version == 2 { LEVEL_2 } else { LEVEL_1 }
    }

    /// Reads the files `names`, of which one is the limit.
    fn read(&self, directory: &Path, names: &[&str]) -> Option<CgroupMemory> {
        let mut files = Files {
            version: self.version,
            ..Files::default()
        };
        let (mut reader, mut gaps) = (Reader::new(), GapList::of_machine());
        for name in names {
            chain::file(&mut files, &mut reader, directory, name, &mut gaps);
        }
        numbers::memory(&files).filter(|memory| memory.limit_bytes != Limit::Unknown)
    }
}

/// Returns the memory of the machine as room: what is not available is used.
pub fn machine_room(machine: &Machine) -> Option<MemoryRoom> {
    let mut reader = Reader::new();
    let info = key_value::parse(reader.read_path(&machine.proc.join("meminfo")).ok()?);
    let bytes = |name: &str| kibibytes(info.get(name)?);
    let limit_bytes = bytes("MemTotal")?;
    Some(MemoryRoom {
        limit_bytes,
        path: None,
        peak_bytes: None,
        usage_bytes: limit_bytes.saturating_sub(bytes("MemAvailable")?),
    })
}
