//! The thread that reads what can block.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use model::ProcessId;

use super::{Mapped, lock};
use crate::proc::kind::Kind;
use crate::proc::reader::{open_process, read_link};
use crate::proc::{Reader, cmdline, environ, stat};
use crate::python;

/// More than this of a `maps` file is not searched.
const MAPS_LIMIT: usize = 8 << 20;

/// A stack for reads into buffers on the heap.
const STACK_BYTES: usize = 256 << 10;

/// One process to read.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: ProcessId,
    /// Where its image stands.
    pub(crate) index: usize,
    /// What was found out before.
    pub(crate) mapped: Option<Mapped>,
}

/// One file of a process.
#[derive(Debug)]
pub(crate) enum Answer {
    Exe(io::Result<OsString>),
    /// The content and whether there is more.
    Cmdline(io::Result<(Vec<u8>, bool)>),
    Environ(io::Result<(Vec<u8>, bool)>),
    /// Whether the Python library is mapped.
    Mapped(io::Result<bool>),
}

/// Where a worker is; shared with the one that waits for it.
#[derive(Debug)]
pub(crate) struct Progress {
    blocked: Arc<Mutex<BTreeSet<ProcessId>>>,
    current: Option<(usize, ProcessId)>,
    is_abandoned: bool,
}

impl Progress {
    /// Returns one that puts the process of an abandoned worker into `blocked`, until its read returns.
    pub(crate) fn shared(blocked: &Arc<Mutex<BTreeSet<ProcessId>>>) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            blocked: Arc::clone(blocked),
            current: None,
            is_abandoned: false,
        }))
    }

    /// Gives the worker up and returns the position of the request it is in; nothing if it is between two.
    pub(crate) fn abandon(&mut self) -> Option<usize> {
        let (position, id) = self.current?;
        self.is_abandoned = true;
        lock(&self.blocked).insert(id);
        Some(position)
    }

    /// Ends a request; returns whether the worker has been abandoned in it.
    fn finish(&mut self, id: ProcessId) -> bool {
        self.current = None;
        if self.is_abandoned {
            lock(&self.blocked).remove(&id);
        }
        self.is_abandoned
    }
}

/// Starts a worker on the requests from position `first`. The answers end when it is done.
pub(crate) fn start(
    proc: &Path,
    requests: &Arc<[Request]>,
    first: usize,
    progress: &Arc<Mutex<Progress>>,
) -> io::Result<Receiver<(usize, Answer)>> {
    let (sender, receiver) = channel();
    let mut worker = Worker {
        answers: sender,
        proc: proc.to_owned(),
        progress: Arc::clone(progress),
        reader: Reader::new(),
    };
    let requests = Arc::clone(requests);
    // Never joined: it may be blocked for ever.
    std::thread::Builder::new()
        .name("taskscope-image".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || worker.work(&requests, first))?;
    Ok(receiver)
}

struct Worker {
    answers: Sender<(usize, Answer)>,
    proc: PathBuf,
    progress: Arc<Mutex<Progress>>,
    reader: Reader,
}

impl Worker {
    fn work(&mut self, requests: &[Request], first: usize) {
        for (position, request) in requests.iter().enumerate().skip(first) {
            lock(&self.progress).current = Some((position, request.id));
            self.process(request);
            if lock(&self.progress).finish(request.id) {
                return;
            }
        }
    }

    /// A process that is gone or has become another one has no answers; who asked finds that out.
    fn process(&mut self, request: &Request) {
        let Ok(directory) = open_process(&self.proc, request.id.pid) else {
            return;
        };
        let directory = directory.as_fd();
        let stat = self
            .reader
            .read(directory, "stat")
            .ok()
            .and_then(stat::parse);
        let Some(stat) = stat.filter(|stat| stat.start_time_ticks == request.id.start_time_ticks)
        else {
            return;
        };
        let kind = Kind::of(&mut self.reader, directory, &stat);
        let exe = read_link(directory, &kind.path("exe"));
        let exe_name = exe.as_ref().ok().cloned();
        self.answer(request, Answer::Exe(exe));
        let arguments = self.content(directory, &kind.path("cmdline"), cmdline::LIMIT);
        let is_named = exe_name
            .iter()
            .any(|exe| python::is_name(&exe.to_string_lossy()))
            || arguments.iter().any(|(content, _)| is_first_named(content));
        self.answer(request, Answer::Cmdline(arguments));
        let environment = self.content(directory, &kind.path("environ"), environ::LIMIT);
        self.answer(request, Answer::Environ(environment));
        if is_named || matches!(kind, Kind::Zombie | Kind::KernelThread) {
            return;
        }
        let mapped = match &request.mapped {
            Some((exe, mapped)) if *exe == exe_name => Ok(*mapped),
            _ => self.is_mapped(directory, &kind.path("maps")),
        };
        self.answer(request, Answer::Mapped(mapped));
    }

    fn is_mapped(&mut self, directory: BorrowedFd<'_>, path: &str) -> io::Result<bool> {
        let (maps, _) = self.reader.read_up_to(directory, path, MAPS_LIMIT)?;
        Ok(python::is_mapped(maps))
    }

    fn content(
        &mut self,
        directory: BorrowedFd<'_>,
        path: &str,
        limit: usize,
    ) -> io::Result<(Vec<u8>, bool)> {
        let (content, more) = self.reader.read_up_to(directory, path, limit)?;
        Ok((content.to_vec(), more))
    }

    fn answer(&self, request: &Request, answer: Answer) {
        // Who asked has gone on: the answer is for nobody.
        let _ = self.answers.send((request.index, answer));
    }
}

fn is_first_named(cmdline: &[u8]) -> bool {
    let first = cmdline.split(|&byte| byte == 0).next().unwrap_or_default();
    python::is_name(&String::from_utf8_lossy(first))
}
