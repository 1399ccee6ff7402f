//! What program a process runs: executable, arguments, environment, and whether it is Python.
//!
//! All but the name of the executable waits for the memory of the process; so `memory` reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{Gap, GapCode, ProcessId};

use crate::error::malformed;
use crate::gaps::GapList;
use crate::memory::{Environment, Job, MemoryReader, Piece, Task};
use crate::proc::rollup::{self, Rollup};
use crate::proc::{cmdline, reader};
use crate::python::{Evidence, Python};
use crate::sight::Generation;

/// The most captures for which "no Python in it" is believed without a new look.
const LONGEST_BELIEF: u64 = 32;

/// The listed variables of an environment, by name.
pub(crate) type Variables = BTreeMap<String, String>;

/// What program a process runs.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) arguments: Vec<String>,
    /// How many bytes of arguments were read.
    pub(crate) cmdline_bytes: u64,
    pub(crate) environ: Environ,
    pub(crate) exe: Option<OsString>,
    pub(crate) gaps: GapList,
    pub(crate) id: ProcessId,
    /// Whether a read of its memory does not return.
    pub(crate) is_blocked: bool,
    /// Its share of memory, where it was asked for.
    pub(crate) rollup: Option<Rollup>,
    evidence: Evidence,
    /// What was found out before, and holds if it still runs the same program.
    believed: Evidence,
    start_stack: u64,
    unread: BTreeSet<&'static str>,
}

/// What is known of an environment.
#[derive(Debug)]
pub(crate) enum Environ {
    /// What the file says.
    Read(Variables),
    /// What the process has in its memory: where its title is over what the file shows, or it has set a rank.
    InMemory(Variables),
    /// It was not read, because it is known from an earlier capture or from the parent.
    Known,
    /// It could not be read, or is no environment any more.
    Missing,
}

/// What need not be read, and what is to be read beyond the usual.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Of which exec the environment is known.
    pub(crate) known: BTreeMap<ProcessId, Generation>,
    /// Names of variables to keep beyond the built-in ones; one that ends in `*` is a prefix.
    pub(crate) names: Vec<String>,
    /// Whose environment is known without a rank, and due for a look at what was set since, if they are Python.
    pub(crate) rankless: BTreeSet<ProcessId>,
    /// Whose share of memory is wanted.
    pub(crate) rollups: BTreeSet<ProcessId>,
}

/// Asks for images, and remembers what was found out about their executables.
#[derive(Debug, Default)]
pub(crate) struct ImageReader {
    evidence: Mutex<BTreeMap<ProcessId, Found>>,
    round: AtomicU64,
}

/// What was found out about a process before.
#[derive(Clone, Debug)]
struct Found {
    evidence: Evidence,
    exe: Option<OsString>,
    /// How often nothing of Python was found.
    times: u32,
    until_round: u64,
}

impl Image {
    fn of(id: ProcessId) -> Self {
        Self {
            arguments: Vec::new(),
            cmdline_bytes: 0,
            environ: Environ::Missing,
            exe: None,
            gaps: GapList::of(id),
            id,
            is_blocked: false,
            rollup: None,
            evidence: Evidence::default(),
            believed: Evidence::default(),
            start_stack: 0,
            unread: BTreeSet::from(["cmdline", "environ", "exe"]),
        }
    }

    /// Whether it is a Python interpreter.
    pub(crate) fn python(&self) -> Python {
        let exe = self.exe.as_ref().map(|exe| exe.to_string_lossy());
        let first_argument = self.arguments.first().map(String::as_str);
        self.evidence.judge(exe.as_deref(), first_argument)
    }

    pub(crate) fn exe_path(&self) -> Option<PathBuf> {
        self.exe.as_ref().map(PathBuf::from)
    }

    /// The bottom of its stack; 0 where it is not shown.
    pub(crate) fn start_stack(&self) -> u64 {
        self.start_stack
    }

    /// Which exec it is of; nothing where that cannot be told.
    pub(crate) fn generation(&self) -> Option<Generation> {
        Generation::of(self.exe.as_ref()?, self.start_stack)
    }

    /// Notes that its environment is known from elsewhere, so that nothing is missing.
    pub(crate) fn found_environment(&mut self) {
        self.environ = Environ::Known;
        self.gaps.forget("environ");
    }

    fn take(&mut self, piece: Piece) {
        match piece {
            Piece::Exe { exe, start_stack } => {
                self.take_exe(exe.map_err(Into::into));
                self.start_stack = start_stack;
            }
            Piece::Cmdline(content) => {
                let content = self.content("cmdline", content.map_err(Into::into));
                let content = content.unwrap_or_default();
                self.cmdline_bytes = u64::try_from(content.len()).expect("a length fits");
                self.arguments = cmdline::arguments(&content);
            }
            Piece::Environ(environment) => {
                self.unread.remove("environ");
                let environment = environment.map_err(Into::into);
                if let Some(environment) = self.gaps.keep("environ", environment) {
                    self.take_environment(environment);
                }
            }
            Piece::Rollup(content) => {
                let rollup = self.content("smaps_rollup", content.map_err(Into::into));
                let rollup = rollup.filter(|content| !content.is_empty());
                if let Some(content) = rollup {
                    let rollup = rollup::parse(&content).ok_or_else(malformed);
                    self.rollup = self.gaps.keep("smaps_rollup", rollup);
                }
            }
            Piece::Evidence { library, symbols } => {
                let library = self.gaps.keep("maps", library.map_err(Into::into));
                self.evidence.library = library.unwrap_or(false);
                self.evidence.symbols = symbols;
            }
            Piece::EvidenceHolds => self.evidence = self.believed,
            Piece::Argument(..)
            | Piece::Word(..)
            | Piece::Maps(_)
            | Piece::BeginsArgument(_)
            | Piece::BeginsWords
            | Piece::BeginsMaps
            | Piece::Done
            | Piece::NeedsMemory => {}
        }
    }

    fn take_exe(&mut self, exe: io::Result<OsString>) {
        self.unread.remove("exe");
        self.exe = self.gaps.keep("exe", exe);
    }

    fn take_environment(&mut self, environment: Environment) {
        self.environ = match environment {
            Environment::File(variables, cut) => {
                if let Some(bytes) = cut {
                    self.note_cut("environ", bytes);
                }
                Environ::Read(variables)
            }
            Environment::Memory(variables) => Environ::InMemory(variables),
            // Of a zombie the kernel says the same as of an empty one.
            Environment::Empty if self.exe.is_none() => Environ::Missing,
            Environment::Empty => Environ::Read(Variables::new()),
            Environment::Overwritten(why) => {
                let gap = Gap::new("environ", GapCode::Malformed);
                self.gaps.add(gap.with_detail(format!(
                    "the process has written its title over it, and its memory does not give it: {why}"
                )));
                Environ::Missing
            }
            Environment::Known => Environ::Known,
        };
    }

    fn content(
        &mut self,
        what: &'static str,
        content: io::Result<(Vec<u8>, bool)>,
    ) -> Option<Vec<u8>> {
        self.unread.remove(what);
        let (content, more) = self.gaps.keep(what, content)?;
        if more {
            self.note_cut(what, u64::try_from(content.len()).expect("a length fits"));
        }
        Some(content)
    }

    fn note_cut(&mut self, what: &str, bytes: u64) {
        let detail = format!("the first {bytes} bytes were read");
        self.gaps
            .add(Gap::new(what, GapCode::Truncated).with_detail(detail));
    }

    /// Notes that it was not read, or not to its end. The name of the executable can be had without the lock of the memory.
    fn leave_alone(&mut self, proc: &Path, code: GapCode, detail: &str) {
        if self.unread.contains("exe") {
            let exe = reader::open_process(proc, self.id.pid)
                .and_then(|directory| reader::read_link(directory.as_fd(), "exe"));
            self.take_exe(exe);
        }
        self.is_blocked = code == GapCode::BlockedRead;
        self.give_up(code, detail);
    }

    /// Notes for each file that was not read that it was not.
    fn give_up(&mut self, code: GapCode, detail: &str) {
        for what in std::mem::take(&mut self.unread) {
            self.gaps.add(Gap::new(what, code).with_detail(detail));
        }
    }
}

impl ImageReader {
    /// Reads the images of `ids` below the root `proc` with `memory`, in their order.
    pub(crate) fn read(
        &self,
        memory: &MemoryReader,
        proc: &Path,
        ids: &[ProcessId],
        asked: &Asked,
    ) -> Vec<Image> {
        let mut images: Vec<Image> = ids.iter().map(|&id| Image::of(id)).collect();
        let excused: BTreeMap<ProcessId, String> = memory.begin(proc, ids).into_iter().collect();
        let mut jobs = Vec::with_capacity(ids.len());
        let mut places = Vec::with_capacity(ids.len());
        for (place, image) in images.iter_mut().enumerate() {
            if asked.rollups.contains(&image.id) {
                image.unread.insert("smaps_rollup");
            }
            if let Some(why) = excused.get(&image.id) {
                image.leave_alone(proc, GapCode::BlockedRead, why);
            } else {
                places.push(place);
                jobs.push(Job {
                    id: image.id,
                    task: self.task(image, asked),
                });
            }
        }
        let mut take = |job: usize, piece| images[places[job]].take(piece);
        let failures = memory.read(proc, &asked.names, &jobs, &mut take);
        for (job, failure) in failures {
            images[places[job]].leave_alone(proc, failure.code, &failure.detail);
        }
        self.remember(&images);
        images
    }

    /// What to ask of the process of `image`. A program may load Python late, so one without is looked at again after
    /// 1, 2, 4 … captures.
    fn task(&self, image: &mut Image, asked: &Asked) -> Task {
        let known = lock(&self.evidence);
        let found = known.get(&image.id);
        let found =
            found.filter(|found| self.round.load(Ordering::Relaxed) + 1 < found.until_round);
        image.believed = found.map(|found| found.evidence).unwrap_or_default();
        Task::Image {
            environ: asked.known.get(&image.id).cloned(),
            evidence: found.and_then(|found| found.exe.clone()),
            rank: image.believed.is_python() && asked.rankless.contains(&image.id),
            rollup: asked.rollups.contains(&image.id),
        }
    }

    fn remember(&self, images: &[Image]) {
        let round = self.round.fetch_add(1, Ordering::Relaxed) + 1;
        let mut known = lock(&self.evidence);
        let before = std::mem::take(&mut *known);
        for image in images.iter().filter(|image| image.unread.is_empty()) {
            let found = before.get(&image.id).filter(|found| found.exe == image.exe);
            if let Some(found) = found.filter(|found| round < found.until_round) {
                known.insert(image.id, found.clone());
                continue;
            }
            let is_python = image.evidence.is_python();
            let times = found.map_or(0, |found| found.times);
            let belief = 2_u64.saturating_pow(times).min(LONGEST_BELIEF);
            let found = Found {
                evidence: image.evidence,
                exe: image.exe.clone(),
                times: times + 1,
                until_round: if is_python { u64::MAX } else { round + belief },
            };
            known.insert(image.id, found);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
