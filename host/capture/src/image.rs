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
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{Gap, GapCode, ProcessId};

use crate::gaps::GapList;
use crate::image::worker::{Answer, Progress, Request};
use crate::proc::{cmdline, environ, reader};
use crate::python::{self, Python};

mod worker;

/// How long a read may take; and every further one in the same capture.
const PATIENCE: Duration = Duration::from_secs(1);
const SHORT_PATIENCE: Duration = Duration::from_millis(50);

/// With so many reads blocked, no others are begun: each holds a thread.
const MOST_BLOCKED: usize = 16;

/// What program a process runs.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) arguments: Vec<String>,
    pub(crate) environ: Vec<u8>,
    pub(crate) exe: Option<OsString>,
    pub(crate) gaps: GapList,
    pub(crate) id: ProcessId,
    /// Whether a read of its memory does not return.
    pub(crate) is_blocked: bool,
    mapped: bool,
    unread: BTreeSet<&'static str>,
}

/// Reads images, and remembers which processes block a reader and which have the Python library mapped.
#[derive(Debug, Default)]
pub(crate) struct ImageReader {
    blocked: Arc<Mutex<BTreeSet<ProcessId>>>,
    mapped: Mutex<BTreeMap<ProcessId, Mapped>>,
}

/// Whether the library is mapped, of the executable that was looked at.
pub(crate) type Mapped = (Option<OsString>, bool);

impl Image {
    fn of(id: ProcessId) -> Self {
        Self {
            arguments: Vec::new(),
            environ: Vec::new(),
            exe: None,
            gaps: GapList::of(id),
            id,
            is_blocked: false,
            mapped: false,
            unread: BTreeSet::from(["cmdline", "environ", "exe"]),
        }
    }

    /// Whether it is a Python interpreter.
    pub(crate) fn python(&self) -> Python {
        let by_exe = self
            .exe
            .as_ref()
            .map(|exe| python::is_name(&exe.to_string_lossy()));
        let by_argument = self
            .arguments
            .first()
            .is_some_and(|first| python::is_name(first));
        match (by_exe, by_argument) {
            (Some(true), _) | (None, true) => Python::Certain,
            (Some(false), true) => Python::Maybe,
            _ if self.mapped => Python::Maybe,
            _ => Python::No,
        }
    }

    pub(crate) fn exe_path(&self) -> Option<PathBuf> {
        self.exe.as_ref().map(PathBuf::from)
    }

    fn take(&mut self, answer: Answer) {
        match answer {
            Answer::Exe(exe) => {
                self.unread.remove("exe");
                self.exe = self.gaps.keep("exe", exe);
            }
            Answer::Cmdline(content) => {
                let content = self.content("cmdline", content);
                self.arguments = cmdline::arguments(&content);
            }
            Answer::Environ(content) => {
                self.environ = self.content("environ", content);
                if environ::is_overwritten(&self.environ) {
                    let gap = Gap::new("environ", GapCode::Malformed);
                    self.gaps
                        .add(gap.with_detail("the process has written its title over it"));
                }
            }
            Answer::Mapped(mapped) => {
                self.mapped = self.gaps.keep("maps", mapped).unwrap_or(false);
            }
        }
    }

    fn content(&mut self, what: &'static str, content: io::Result<(Vec<u8>, bool)>) -> Vec<u8> {
        self.unread.remove(what);
        let Some((content, more)) = self.gaps.keep(what, content) else {
            return Vec::new();
        };
        if more {
            let detail = format!("the first {} bytes were read", content.len());
            self.gaps
                .add(Gap::new(what, GapCode::Truncated).with_detail(detail));
        }
        content
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
    pub(crate) fn read(&self, proc: &Path, ids: &[ProcessId]) -> Vec<Image> {
        let mut images: Vec<Image> = ids.iter().map(|&id| Image::of(id)).collect();
        self.leave_blocked_alone(proc, &mut images);
        let requests = self.requests(&images);
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

    fn requests(&self, images: &[Image]) -> Arc<[Request]> {
        let known = lock(&self.mapped);
        let asked = images
            .iter()
            .enumerate()
            .filter(|(_, image)| !image.is_blocked);
        asked
            .map(|(index, image)| Request {
                id: image.id,
                index,
                mapped: known.get(&image.id).cloned(),
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
            image.take(Answer::Exe(exe));
            image.is_blocked = true;
            image.give_up(GapCode::BlockedRead, "an earlier read has not returned yet");
        }
    }

    fn remember(&self, images: &[Image]) {
        let mut known = lock(&self.mapped);
        known.clear();
        let read = images.iter().filter(|image| image.unread.is_empty());
        known.extend(read.map(|image| (image.id, (image.exe.clone(), image.mapped))));
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
