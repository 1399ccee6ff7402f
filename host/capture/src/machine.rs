//! Where we look: a machine as its proc and cgroup roots, and the helpers that read there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use helper::{Held, Register};
use model::{GapCode, ProcessId};
use rustix::fs::{Mode, OFlags};

use crate::cost::Meter;
use crate::error::{CaptureError, gap_code, malformed};
use crate::execs::Execs;
use crate::filesystem::Asker;
use crate::gpu::{GpuReader, GpuSettings};
use crate::helper::HelperProgram;
use crate::hierarchy::{self, Hierarchy};
use crate::image::ImageReader;
use crate::ipc::IpcReader;
use crate::memory::MemoryReader;
use crate::proc::{Reader, stat, status};
use crate::recall::Recall;
use crate::sample::is_of_the_kernel;
use crate::sight::Sights;
use crate::stack_settings::StackSettings;
use crate::stacks::StackReaders;
use crate::turns::Turns;

/// A machine that can be looked at: this one, or one that is given by its roots.
#[derive(Debug)]
pub struct Machine {
    pub(crate) clock_ticks_per_second: u64,
    pub(crate) execs: Execs,
    pub(crate) file_systems: Asker,
    pub(crate) gpus: Option<GpuReader>,
    pub(crate) helpers: Register,
    pub(crate) images: ImageReader,
    pub(crate) ipc: IpcReader,
    pub(crate) memory: MemoryReader,
    memory_helper: Option<HelperProgram>,
    pub(crate) page_size_bytes: u64,
    pub(crate) proc: PathBuf,
    pub(crate) recall: Recall,
    pub(crate) shared_memory: PathBuf,
    pub(crate) spool: Option<PathBuf>,
    pub(crate) sights: Sights,
    pub(crate) stack_timeout: Duration,
    pub(crate) stacks: StackReaders,
    pub(crate) turns: Turns,
    cgroup: PathBuf,
    cpu_count: OnceLock<Option<u32>>,
    hierarchies: OnceLock<Vec<Hierarchy>>,
    /// Whether processes have the numbers in `proc` that they have for us.
    numbers_as_for_us: OnceLock<bool>,
}

impl Machine {
    /// Returns the machine we run on.
    pub fn local(stacks: StackSettings) -> Self {
        Self::at("/proc".into(), hierarchy::CGROUP_ROOT.into(), stacks)
    }

    /// Returns the machine whose `/proc` is at `proc` and whose `/sys/fs/cgroup` is at `cgroup`.
    pub fn at(proc: PathBuf, cgroup: PathBuf, stacks: StackSettings) -> Self {
        let stack_timeout = stacks.timeout;
        let stacks = StackReaders::new(stacks);
        let page_size = rustix::param::page_size();
        Self {
            clock_ticks_per_second: rustix::param::clock_ticks_per_second(),
            execs: Execs::default(),
            file_systems: Asker::default(),
            gpus: None,
            helpers: stacks.register().clone(),
            images: ImageReader::default(),
            ipc: IpcReader::default(),
            memory: MemoryReader::default(),
            memory_helper: None,
            page_size_bytes: u64::try_from(page_size).expect("a page is smaller than 2^64 bytes"),
            proc,
            recall: Recall::default(),
            shared_memory: "/dev/shm".into(),
            spool: None,
            sights: Sights::default(),
            stack_timeout,
            stacks,
            turns: Turns::default(),
            cgroup,
            cpu_count: OnceLock::new(),
            hierarchies: OnceLock::new(),
            numbers_as_for_us: OnceLock::new(),
        }
    }

    /// Returns this machine with its GPUs read as `settings` say; without, they are not part of a snapshot.
    #[must_use]
    pub fn with_gpus(mut self, settings: GpuSettings) -> Self {
        self.gpus = Some(GpuReader::new(settings, self.helpers.clone()));
        self
    }

    /// Returns this machine with processes of ours known in `helpers`, which those of another one are: to find the task's
    /// processes with, not to start helpers.
    #[must_use]
    pub fn with_helpers(mut self, helpers: Register) -> Self {
        self.helpers = helpers;
        self
    }

    /// Returns this machine with its shared memory mounted at `path` instead of `/dev/shm`.
    #[must_use]
    pub fn with_shared_memory(mut self, path: PathBuf) -> Self {
        self.shared_memory = path;
        self
    }

    /// Returns this machine with what can block read by helpers that are started with `program`: its hidden command calls
    /// [`crate::memory_helper`]. Without it such files are read in place, which is for machines whose files cannot block:
    /// recorded ones.
    #[must_use]
    pub fn with_memory_helper(mut self, program: HelperProgram) -> Self {
        self.memory = MemoryReader::with_helper(program.clone(), self.helpers.clone());
        self.memory_helper = Some(program);
        self
    }

    /// Returns this machine with our spool in `directory`: how full its file system is becomes part of a snapshot.
    #[must_use]
    pub fn with_spool(mut self, directory: PathBuf) -> Self {
        self.spool = Some(directory);
        self
    }

    /// Returns another reader of memory than that of captures, for who must not wait for one.
    pub(crate) fn other_memory_reader(&self) -> MemoryReader {
        self.memory_helper
            .clone()
            .map_or_else(MemoryReader::default, |program| {
                MemoryReader::with_helper(program, self.helpers())
            })
    }

    /// Returns the clock ticks of a second, the unit of CPU times.
    pub fn clock_ticks_per_second(&self) -> u64 {
        self.clock_ticks_per_second
    }

    /// Returns the identity of the process that has `pid` now.
    pub fn identify(&self, pid: i32) -> Result<ProcessId, CaptureError> {
        let path = self.proc.join(pid.to_string()).join("stat");
        let mut reader = Reader::new();
        let stat = reader
            .read_path(&path)
            .and_then(|bytes| stat::parse(bytes).ok_or_else(malformed));
        match stat {
            Ok(stat) => Ok(ProcessId {
                pid,
                start_time_ticks: stat.start_time_ticks,
            }),
            Err(error) if gap_code(&error) == GapCode::Vanished => Err(CaptureError::NoProcess {
                pid,
                proc: self.proc.clone(),
            }),
            Err(source) => Err(CaptureError::Unreadable { path, source }),
        }
    }

    /// Returns the identity of a process that is to be watched: one that lives and is neither a thread of another process nor
    /// one of the kernel.
    pub fn watchable(&self, pid: i32) -> Result<ProcessId, CaptureError> {
        let unwatchable = |reason: String| Err(CaptureError::Unwatchable { pid, reason });
        let id = self.identify(pid)?;
        let directory = self.proc.join(pid.to_string());
        let mut reader = Reader::new();
        let stat = reader.read_path(&directory.join("stat")).map(stat::parse);
        let stat = stat.ok().flatten();
        if stat.as_ref().is_some_and(|stat| stat.kernel_thread) {
            return unwatchable(
                "a thread of the kernel, of which there is nothing to see".to_owned(),
            );
        }
        if stat.is_some_and(|stat| matches!(stat.state, 'Z' | 'X' | 'x')) {
            let reason =
                "a zombie: it has ended, and only its parent still has to ask for its status";
            return unwatchable(reason.to_owned());
        }
        let status = reader.read_path(&directory.join("status"));
        let leader = status.ok().and_then(|bytes| {
            let lines = status::parse(bytes).lines;
            lines.get("Tgid")?.parse::<i32>().ok()
        });
        match leader {
            Some(leader) if leader != pid => {
                unwatchable(format!("a thread of process {leader}; ask for that one"))
            }
            _ => Ok(id),
        }
    }

    /// Returns a meter of the CPU time that our process and the helpers of this machine use.
    pub fn meter(&self) -> Meter {
        Meter::new(self.helpers())
    }

    /// Ends the helper processes, within about a second.
    pub fn close(&mut self) {
        self.stacks.close();
        self.memory.close();
        if let Some(gpus) = &self.gpus {
            gpus.close();
        }
    }

    /// Returns where processes of ours are known. Whoever else starts some registers them here, so that they are never
    /// taken for the task's, and what they use counts as ours.
    pub fn helpers(&self) -> Register {
        self.helpers.clone()
    }

    /// Our own PID as this proc root numbers it; none where it does not know us.
    pub(crate) fn own_pid(&self) -> Option<i32> {
        let target = std::fs::read_link(self.proc.join("self")).ok()?;
        target.to_str()?.parse().ok()
    }

    /// Returns the PID that the kernel gave last, the fifth word of `/proc/loadavg`. A recording does not count; and the kernel says the
    /// number in our own PID namespace, which is none of a root that belongs to another.
    pub(crate) fn last_pid(&self, reader: &mut Reader) -> Option<i32> {
        let content = reader.read_path(&self.proc.join("loadavg")).ok()?;
        self.last_pid_of(content)
    }

    /// Whether a PID here is the same process for system calls of ours: not in the `/proc` of another PID namespace, nor in
    /// a copy.
    pub fn numbers_as_for_us(&self) -> bool {
        *self.numbers_as_for_us.get_or_init(|| {
            let is_of_the_kernel = rustix::fs::open(&self.proc, OFlags::PATH, Mode::empty())
                .is_ok_and(|opened| is_of_the_kernel(&opened));
            is_of_the_kernel && self.own_pid() == i32::try_from(std::process::id()).ok()
        })
    }

    /// Returns the number that `loadavg`, the content of that file, has of the PID that was given last, where it counts.
    pub(crate) fn last_pid_of(&self, loadavg: &[u8]) -> Option<i32> {
        let text = std::str::from_utf8(loadavg).ok()?;
        let last = text.split_ascii_whitespace().nth(4)?;
        last.parse().ok().filter(|_| self.numbers_as_for_us())
    }

    /// The PIDs that are not the task's whoever their parent is: our own and our helpers'. While `helpers` is held no
    /// other becomes one.
    pub(crate) fn our_pids(&self, helpers: &Held<'_>) -> BTreeSet<i32> {
        self.own_pid().into_iter().chain(helpers.pids()).collect()
    }

    /// The PIDs of all helpers that may still be there.
    pub(crate) fn helper_pids(&self) -> Vec<i32> {
        self.helpers.pids()
    }

    /// Where cgroups are mounted.
    pub(crate) fn cgroup_root(&self) -> &Path {
        &self.cgroup
    }

    /// The cgroup hierarchies that are mounted; they do not change while we run.
    pub(crate) fn hierarchies(&self) -> &[Hierarchy] {
        self.hierarchies
            .get_or_init(|| hierarchy::find(&self.proc, &self.cgroup))
    }

    /// How many CPUs are online, from `/proc/stat`. Asked once: on a large machine the kernel counts every interrupt
    /// of every CPU to answer.
    pub(crate) fn cpu_count(&self, reader: &mut Reader) -> Option<u32> {
        *self
            .cpu_count
            .get_or_init(|| count_cpus(reader, &self.proc))
    }
}

fn count_cpus(reader: &mut Reader, proc: &Path) -> Option<u32> {
    let content = reader.read_path(&proc.join("stat")).ok()?;
    let lines = content.split(|&byte| byte == b'\n');
    let cpus = lines.filter(|line| {
        line.strip_prefix(b"cpu")
            .and_then(<[u8]>::first)
            .is_some_and(u8::is_ascii_digit)
    });
    u32::try_from(cpus.count()).ok().filter(|&count| count > 0)
}
