//! What program a process runs: executable, arguments, environment, and whether it is Python.
//!
//! The kernel takes the lock of a process's memory map to read `cmdline`, `environ` and `maps`, and waits for it
//! without end: behind a page fault on a dead network file system, say. So a thread of its own reads them. When it
//! gets no answer it is abandoned, that process has a gap, another thread goes on with the next one, and the process
//! is left alone until the abandoned read has returned.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{Gap, GapCode, ProcessId};

use crate::error::malformed;
use crate::gaps::GapList;
use crate::image::executables::Executables;
use crate::image::worker::{Answer, Progress, Request};
use crate::proc::rollup::{self, Rollup};
use crate::proc::{cmdline, environ, reader};
use crate::python::{Evidence, Python};
use crate::sight::Generation;

mod executables;
mod worker;

/// How long a read may take; and every further one in the same capture.
const PATIENCE: Duration = Duration::from_secs(1);
const SHORT_PATIENCE: Duration = Duration::from_millis(50);

/// With so many reads blocked, no others are begun: each holds a thread.
const MOST_BLOCKED: usize = 16;

/// The most captures for which "no Python in it" is believed without a new look.
const LONGEST_BELIEF: u64 = 32;

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
    start_stack: u64,
    unread: BTreeSet<&'static str>,
}

/// What is known of an environment.
#[derive(Debug)]
pub(crate) enum Environ {
    /// The content of the file.
    Read(Vec<u8>),
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
    /// Whose share of memory is wanted.
    pub(crate) rollups: BTreeSet<ProcessId>,
}

/// Reads images, and remembers which processes block a reader and what was found out about their executables.
#[derive(Debug, Default)]
pub(crate) struct ImageReader {
    blocked: Arc<Mutex<BTreeSet<ProcessId>>>,
    evidence: Mutex<BTreeMap<ProcessId, Found>>,
    executables: Arc<Mutex<Executables>>,
    round: AtomicU64,
}

/// What was found out about a process before.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    evidence: Evidence,
    exe: Option<OsString>,
    /// How often nothing of Python was found.
    times: u32,
    until_round: u64,
}

impl Found {
    /// What still holds of a process that runs `exe`. A program may load Python late, so one without is looked at
    /// again after 1, 2, 4 … captures.
    fn in_force(&self, exe: Option<&OsString>, round: u64) -> Option<Evidence> {
        (self.exe.as_ref() == exe && round < self.until_round).then_some(self.evidence)
    }
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

    /// Which exec it is of; nothing where that cannot be told.
    pub(crate) fn generation(&self) -> Option<Generation> {
        Generation::of(self.exe.as_ref()?, self.start_stack)
    }

    /// Notes that its environment is known from elsewhere, so that nothing is missing.
    pub(crate) fn found_environment(&mut self) {
        self.environ = Environ::Known;
        self.gaps.forget("environ");
    }

    fn take(&mut self, answer: Answer) {
        match answer {
            Answer::Exe { exe, start_stack } => {
                self.unread.remove("exe");
                self.exe = self.gaps.keep("exe", exe);
                self.start_stack = start_stack;
            }
            Answer::Cmdline(content) => {
                let content = self.content("cmdline", content).unwrap_or_default();
                self.cmdline_bytes = u64::try_from(content.len()).expect("a length fits");
                self.arguments = cmdline::arguments(&content);
            }
            Answer::Environ(content) => {
                let content = self.content("environ", content);
                if content.as_deref().is_some_and(environ::is_overwritten) {
                    let gap = Gap::new("environ", GapCode::Malformed);
                    self.gaps
                        .add(gap.with_detail("the process has written its title over it"));
                } else if let Some(content) = content
                    // Of a zombie the kernel says the same as of an empty one.
                    && (!content.is_empty() || self.exe.is_some())
                {
                    self.environ = Environ::Read(content);
                }
            }
            Answer::EnvironKnown => {
                self.unread.remove("environ");
                self.environ = Environ::Known;
            }
            Answer::Rollup(content) => {
                let rollup = self.content("smaps_rollup", content);
                let rollup = rollup.filter(|content| !content.is_empty());
                if let Some(content) = rollup {
                    let rollup = rollup::parse(&content).ok_or_else(malformed);
                    self.rollup = self.gaps.keep("smaps_rollup", rollup);
                }
            }
            Answer::Evidence { library, symbols } => {
                self.evidence.library = self.gaps.keep("maps", library).unwrap_or(false);
                self.evidence.symbols = symbols;
            }
        }
    }

    fn content(
        &mut self,
        what: &'static str,
        content: io::Result<(Vec<u8>, bool)>,
    ) -> Option<Vec<u8>> {
        self.unread.remove(what);
        let (content, more) = self.gaps.keep(what, content)?;
        if more {
            let detail = format!("the first {} bytes were read", content.len());
            self.gaps
                .add(Gap::new(what, GapCode::Truncated).with_detail(detail));
        }
        Some(content)
    }

    /// Notes for each file that was not read that it was not.
    fn give_up(&mut self, code: GapCode, detail: &str) {
        for what in std::mem::take(&mut self.unread) {
            self.gaps.add(Gap::new(what, code).with_detail(detail));
        }
    }
}

impl ImageReader {
    /// Reads the images of `ids` below the root `proc`, in their order.
    pub(crate) fn read(&self, proc: &Path, ids: &[ProcessId], asked: &Asked) -> Vec<Image> {
        let mut images: Vec<Image> = ids.iter().map(|&id| Image::of(id)).collect();
        for image in images
            .iter_mut()
            .filter(|image| asked.rollups.contains(&image.id))
        {
            image.unread.insert("smaps_rollup");
        }
        self.leave_blocked_alone(proc, &mut images);
        let requests = self.requests(&images, asked);
        let mut patience = PATIENCE;
        let mut next = 0;
        while next < requests.len() {
            if lock(&self.blocked).len() >= MOST_BLOCKED {
                for request in &requests[next..] {
                    let detail = format!("{MOST_BLOCKED} reads of other processes do not return");
                    images[request.index].give_up(GapCode::Skipped, &detail);
                }
                break;
            }
            let progress = Progress::shared(&self.blocked);
            let answers = match worker::start(proc, &requests, next, &progress) {
                Ok(answers) => answers,
                Err(error) => {
                    for request in &requests[next..] {
                        images[request.index].give_up(GapCode::Failed, &error.to_string());
                    }
                    break;
                }
            };
            next = match collect(&answers, &progress, patience, &mut images) {
                None => requests.len(),
                Some(position) => {
                    let image = &mut images[requests[position].index];
                    image.is_blocked = true;
                    let detail = "the read did not return; it was abandoned";
                    image.give_up(GapCode::BlockedRead, detail);
                    position + 1
                }
            };
            patience = SHORT_PATIENCE;
        }
        self.remember(&images);
        images
    }

    fn requests(&self, images: &[Image], asked: &Asked) -> Arc<[Request]> {
        let known = lock(&self.evidence);
        let round = self.round.fetch_add(1, Ordering::Relaxed) + 1;
        let read = images
            .iter()
            .enumerate()
            .filter(|(_, image)| !image.is_blocked);
        read.map(|(index, image)| Request {
            environ: asked.known.get(&image.id).cloned(),
            id: image.id,
            executables: Arc::clone(&self.executables),
            found: known.get(&image.id).cloned(),
            index,
            rollup: asked.rollups.contains(&image.id),
            round,
        })
        .collect()
    }

    /// A read that did not return is not tried again; the executable's name can be had without that lock.
    fn leave_blocked_alone(&self, proc: &Path, images: &mut [Image]) {
        let blocked = lock(&self.blocked).clone();
        for image in images
            .iter_mut()
            .filter(|image| blocked.contains(&image.id))
        {
            let exe = reader::open_process(proc, image.id.pid)
                .and_then(|directory| reader::read_link(directory.as_fd(), "exe"));
            image.take(Answer::Exe {
                exe,
                start_stack: 0,
            });
            image.is_blocked = true;
            image.give_up(GapCode::BlockedRead, "an earlier read has not returned yet");
        }
    }

    fn remember(&self, images: &[Image]) {
        let round = self.round.load(Ordering::Relaxed);
        let mut known = lock(&self.evidence);
        let before = std::mem::take(&mut *known);
        for image in images.iter().filter(|image| image.unread.is_empty()) {
            let found = before.get(&image.id).filter(|found| found.exe == image.exe);
            if let Some(found) = found.filter(|found| round < found.until_round) {
                known.insert(image.id, found.clone());
                continue;
            }
            let is_python = image.evidence.symbols == Some(true) || image.evidence.library;
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

/// Takes answers until the worker is done, or returns the position of the request it is blocked in.
fn collect(
    answers: &Receiver<(usize, Answer)>,
    progress: &Mutex<Progress>,
    patience: Duration,
    images: &mut [Image],
) -> Option<usize> {
    loop {
        match answers.recv_timeout(patience) {
            Ok((index, answer)) => images[index].take(answer),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {
                let blocked = lock(progress).abandon();
                if blocked.is_some() {
                    for (index, answer) in answers.try_iter() {
                        images[index].take(answer);
                    }
                    return blocked;
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
