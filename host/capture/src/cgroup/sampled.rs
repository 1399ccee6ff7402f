//! The cgroups of the main process in a sample: its own, and the one whose memory limit binds it.
//!
//! Which those are is found out with a whole look at the chain, now and then; in between a few files of theirs stay open.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use model::{CgroupSample, Limit};

use super::numbers::{self, Files};
use super::{chain, limits};
use crate::error::gap_code;
use crate::gaps::GapList;
use crate::machine::Machine;
use crate::proc::{Reader, text};
use crate::sample::{Keeper, Kept};

/// After so many samples the chain is looked at again: a limit may have been set above.
const SAMPLES_BELIEVED: u32 = 30;

/// What is read of the task's own cgroup, by its memory controller. Names of both versions: those that are not there cost nothing after
/// the first sample.
const MEMORY: [&str; 5] = [
    "memory.current",
    "memory.usage_in_bytes",
    "memory.stat",
    "memory.events",
    "memory.oom_control",
];
/// By its CPU controller.
const CPU: [&str; 5] = [
    "cpu.stat",
    "cpuacct.usage",
    "cpu.pressure",
    "io.pressure",
    "memory.pressure",
];
/// What is read of the cgroup that sets the memory limit.
const LIMIT: [&str; 6] = [
    "memory.current",
    "memory.usage_in_bytes",
    "memory.max",
    "memory.limit_in_bytes",
    "memory.events",
    "memory.failcnt",
];

/// The cgroups of one main process.
#[derive(Debug, Default)]
pub(crate) struct SampledCgroup {
    believed: u32,
    lines: Vec<String>,
    cpu: Option<Directory>,
    limit: Option<Directory>,
    memory: Option<Directory>,
    quota_cpus: Option<f64>,
    /// What a whole look said the memory limit is, where the cgroup that sets it is not visible.
    told: Limit,
}

/// Some files of one cgroup.
#[derive(Debug)]
struct Directory {
    files: Vec<(&'static str, Kept)>,
    path: PathBuf,
    version: u32,
}

impl SampledCgroup {
    /// Reads the cgroups of the process whose `/proc/PID/cgroup` has `lines`; nothing where it is in the root cgroup of the machine,
    /// whose figures are not the task's, or none is visible.
    pub(crate) fn read(
        &mut self,
        machine: &Machine,
        lines: &[String],
        keeper: &mut Keeper,
    ) -> Option<CgroupSample> {
        if self.believed == 0 || self.lines != lines {
            self.look(machine, lines, keeper);
        }
        self.believed -= 1;
        let memory = self.memory.as_mut().and_then(|it| it.read(keeper));
        let limit = self.limit.as_mut().and_then(|it| it.read(keeper));
        let cpu = self.cpu.as_mut().and_then(|it| it.read(keeper));
        if memory.is_none() && cpu.is_none() {
            self.believed = 0; // it was removed, or never there: the next sample looks again
            return None;
        }
        let own = memory
            .as_ref()
            .and_then(numbers::memory)
            .unwrap_or_default();
        let binding = limit.as_ref().and_then(numbers::memory);
        let used = cpu.as_ref().and_then(numbers::cpu).unwrap_or_default();
        let path =
            |directory: &Option<Directory>| Some(directory.as_ref()?.path.display().to_string());
        Some(CgroupSample {
            anon_bytes: own.anon_bytes,
            cpu_usec: used.usage_usec,
            file_bytes: own.file_bytes,
            limit_bytes: binding.as_ref().map_or(self.told, |it| it.limit_bytes),
            limit_hits: binding.as_ref().and_then(|it| it.limit_hits),
            limit_path: path(&self.limit),
            limit_usage_bytes: binding.as_ref().and_then(|it| it.usage_bytes),
            oom_kills: own.oom_kills,
            path: path(&self.memory),
            pressure: cpu.as_ref().map(numbers::pressures).unwrap_or_default(),
            quota_cpus: self.quota_cpus,
            shmem_bytes: own.shmem_bytes,
            throttled_usec: used.throttled_usec,
            usage_bytes: own.usage_bytes,
        })
    }

    /// Looks at the whole chain to find out which cgroups matter.
    fn look(&mut self, machine: &Machine, lines: &[String], keeper: &mut Keeper) {
        for directory in [self.cpu.take(), self.limit.take(), self.memory.take()] {
            for (_, kept) in directory.into_iter().flat_map(|it| it.files) {
                keeper.forget(kept);
            }
        }
        let mut gaps = GapList::of_machine(); // each snapshot tells them
        let chains = chain::read(machine, lines, &mut Reader::new(), &mut gaps);
        let tightest = limits::tightest(&chains);
        self.believed = SAMPLES_BELIEVED;
        lines.clone_into(&mut self.lines);
        let own = |controller: &str| {
            let mut chains = chains.iter().filter(|chain| !chain.levels.is_empty());
            let chain = chains.find(|chain| chain.has(controller))?;
            let path = Path::new(&chain.levels[0].facts.path);
            let is_root = chain.is_whole && chain.levels.len() == 1;
            (!is_root).then(|| (path.to_owned(), chain.hierarchy.version))
        };
        self.cpu = own("cpu").map(|(path, version)| Directory::of(path, version, &CPU));
        let memory = own("memory");
        let limit = tightest.memory.unwrap_or_default();
        self.told = limit.limit_bytes;
        self.limit = memory
            .as_ref()
            .and_then(|(_, version)| Some(Directory::of(limit.path?.into(), *version, &LIMIT)));
        self.memory = memory.map(|(path, version)| Directory::of(path, version, &MEMORY));
        self.quota_cpus = tightest.cpu.and_then(|cpu| {
            let quota = u32::try_from(cpu.quota_usec.number()?).ok()?;
            let period = u32::try_from(cpu.period_usec?).ok()?;
            (period > 0).then(|| f64::from(quota) / f64::from(period))
        });
    }
}

impl Directory {
    fn of(path: PathBuf, version: u32, names: &[&'static str]) -> Self {
        let files = names.iter().map(|&name| (name, Kept::below(&path, name)));
        Self {
            files: files.collect(),
            path,
            version,
        }
    }

    /// Reads the files; those that are not there are not asked for again. Nothing where none can be read.
    fn read(&mut self, keeper: &mut Keeper) -> Option<Files> {
        let mut files = Files {
            unread: BTreeSet::new(),
            version: self.version,
            ..Files::default()
        };
        self.files.retain_mut(|(name, kept)| {
            match keeper.read(kept).map(text::line) {
                Ok(content) => {
                    files.texts.insert((*name).to_owned(), content);
                }
                Err(error) if gap_code(&error) == model::GapCode::Vanished => return false,
                Err(_) => {
                    files.unread.insert((*name).to_owned());
                }
            }
            true
        });
        (!files.texts.is_empty()).then_some(files)
    }
}
