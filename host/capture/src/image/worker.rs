//! The thread that reads what can block.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use model::ProcessId;

use super::executables::{self, Executables};
use super::{Found, lock};
use crate::proc::kind::Kind;
use crate::proc::reader::{open_process, read_link};
use crate::proc::{Reader, cmdline, environ, stat};
use crate::python;
use crate::sight::Generation;

/// More than this of a `maps` file is not searched.
const MAPS_LIMIT: usize = 8 << 20;

/// A `smaps_rollup` has some thirty short lines.
const ROLLUP_LIMIT: usize = 16 << 10;

/// A stack for reads into buffers on the heap.
const STACK_BYTES: usize = 256 << 10;

/// One process to read.
#[derive(Debug)]
pub(crate) struct Request {
    /// Of which exec the environment is known.
    pub(crate) environ: Option<Generation>,
    pub(crate) executables: Arc<Mutex<Executables>>,
    /// What was found out before.
    pub(crate) found: Option<Found>,
    pub(crate) id: ProcessId,
    /// Where its image stands.
    pub(crate) index: usize,
    /// Whether its share of memory is wanted.
    pub(crate) rollup: bool,
    /// The number of the capture.
    pub(crate) round: u64,
}

/// One file of a process.
#[derive(Debug)]
pub(crate) enum Answer {
    Exe {
        exe: io::Result<OsString>,
        start_stack: u64,
    },
    /// The content and whether there is more.
    Cmdline(io::Result<(Vec<u8>, bool)>),
    Environ(io::Result<(Vec<u8>, bool)>),
    EnvironKnown,
    Rollup(io::Result<(Vec<u8>, bool)>),
    /// Whether the Python library is mapped, and what the symbols of the executable say.
    Evidence {
        library: io::Result<bool>,
        symbols: Option<bool>,
    },
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
        let start_stack = stat.start_stack;
        self.answer(request, Answer::Exe { exe, start_stack });
        let arguments = self.content(directory, &kind.path("cmdline"), cmdline::LIMIT);
        let is_named = exe_name
            .iter()
            .any(|exe| python::is_name(&exe.to_string_lossy()))
            || arguments.iter().any(|(content, _)| is_first_named(content));
        self.answer(request, Answer::Cmdline(arguments));
        let generation = exe_name.as_ref();
        let generation = generation.and_then(|exe| Generation::of(exe, start_stack));
        let environment = if generation.is_some() && generation == request.environ {
            Answer::EnvironKnown
        } else {
            Answer::Environ(self.content(directory, &kind.path("environ"), environ::LIMIT))
        };
        self.answer(request, environment);
        if matches!(kind, Kind::Zombie | Kind::KernelThread) {
            return;
        }
        let found = request.found.as_ref();
        let (library, symbols) =
            match found.and_then(|found| found.in_force(exe_name.as_ref(), request.round)) {
                Some(evidence) => (Ok(evidence.library), evidence.symbols),
                None => self.evidence(request, directory, kind, is_named),
            };
        self.answer(request, Answer::Evidence { library, symbols });
        if request.rollup {
            let rollup = self.content(directory, &kind.path("smaps_rollup"), ROLLUP_LIMIT);
            self.answer(request, Answer::Rollup(rollup));
        }
    }

    /// Looks for a library only where the executable is no interpreter, nor has its name where it cannot be read.
    fn evidence(
        &mut self,
        request: &Request,
        directory: BorrowedFd<'_>,
        kind: Kind,
        is_named: bool,
    ) -> (io::Result<bool>, Option<bool>) {
        let symbols = executables::have_python(&request.executables, directory, &kind.path("exe"));
        if symbols.unwrap_or(is_named) {
            return (Ok(false), symbols);
        }
        (self.is_mapped(directory, &kind.path("maps")), symbols)
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
