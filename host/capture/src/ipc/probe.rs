//! What is asked of descriptors, on a thread of its own that is abandoned when an answer does not come.
//!
//! The size of a pipe takes the lock of the pipe, which a writer holds while it waits for a page of its own memory; so it
//! is not read on the thread that must end on time. Nor is it read in a helper process: where only ancestors of a process
//! may have its descriptors (Yama), we are one and a helper is not. An abandoned thread ends as soon as its read returns;
//! until then its process is left alone.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{PipeEnd, PipeFacts, ProcessId};

use super::probe::process::{FileFacts, Probed};

pub(super) mod pipe;
pub(super) mod process;

/// How long a read may take; and every further one in the same capture.
const PATIENCE: Duration = Duration::from_secs(1);
const SHORT_PATIENCE: Duration = Duration::from_millis(50);

/// With so many reads blocked, no others are begun: each holds a thread.
const MOST_BLOCKED: usize = 16;

const STACK_BYTES: usize = 256 << 10;

/// What is asked of one process.
#[derive(Debug)]
pub(super) struct Request {
    /// Descriptors whose file is asked about: is it a FIFO, how long is it; and which end of a FIFO each would be.
    pub(super) files: Vec<(i32, PipeEnd)>,
    pub(super) id: ProcessId,
    pub(super) pipes: Vec<PipeRequest>,
    /// Descriptors of sockets, with the inodes, whose protocol is asked for.
    pub(super) sockets: Vec<(i32, u64)>,
}

impl Request {
    /// Asks nothing yet.
    pub(super) fn of(id: ProcessId) -> Self {
        Self {
            files: Vec::new(),
            id,
            pipes: Vec::new(),
            sockets: Vec::new(),
        }
    }
}

/// One descriptor through which a pipe is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct PipeRequest {
    pub(super) end: PipeEnd,
    pub(super) fd: i32,
    pub(super) inode: u64,
}

/// One answer.
#[derive(Debug)]
pub(super) enum Answer {
    /// A descriptor is of this file; of a FIFO also how full it is.
    File(i32, io::Result<(FileFacts, Option<io::Result<PipeFacts>>)>),
    /// By inode.
    Pipe(u64, io::Result<PipeFacts>),
    /// Of a socket, by inode, the kernel's name.
    Protocol(u64, io::Result<String>),
}

/// What became of a request.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) answers: Vec<Answer>,
    /// The part that did not return.
    pub(super) blocked: Option<&'static str>,
    /// Why the request was not even begun.
    pub(super) skipped: Option<&'static str>,
}

/// Remembers which processes block a reader.
#[derive(Debug, Default)]
pub(super) struct Prober {
    blocked: Arc<Mutex<BTreeSet<ProcessId>>>,
}

/// Where a worker is, and what it found so far. It wakes nobody for an answer: that would cost more than the reads.
#[derive(Debug, Default)]
struct Progress {
    answers: Vec<(usize, Answer)>,
    current: Option<(usize, &'static str)>,
    is_abandoned: bool,
    /// How many reads it has begun.
    reads: u64,
}

impl Prober {
    /// Answers the requests; the outcomes are in their order.
    pub(super) fn read(&self, proc: &Path, requests: Vec<Request>) -> Vec<Outcome> {
        let mut outcomes: Vec<Outcome> = requests.iter().map(|_| Outcome::default()).collect();
        let requests: Arc<[Request]> = requests.into();
        let before = lock(&self.blocked).clone();
        let mut patience = PATIENCE;
        let mut next = 0;
        while next < requests.len() {
            if before.contains(&requests[next].id) {
                outcomes[next].skipped = Some("an earlier read has not returned yet");
                next += 1;
                continue;
            }
            if lock(&self.blocked).len() >= MOST_BLOCKED {
                for outcome in &mut outcomes[next..] {
                    outcome.skipped = Some("too many reads of other processes do not return");
                }
                break;
            }
            let end = (next..requests.len()).find(|&at| before.contains(&requests[at].id));
            let end = end.unwrap_or(requests.len());
            let progress = Arc::new(Mutex::new(Progress::default()));
            let Ok(end_of_work) = self.start(proc, &requests, next..end, &progress) else {
                for outcome in &mut outcomes[next..] {
                    outcome.skipped = Some("no thread could be started");
                }
                break;
            };
            let blocked = self.wait(&end_of_work, &progress, patience, &requests);
            for (position, answer) in std::mem::take(&mut lock(&progress).answers) {
                outcomes[position].answers.push(answer);
            }
            next = match blocked {
                None => end,
                Some((position, part)) => {
                    outcomes[position].blocked = Some(part);
                    patience = SHORT_PATIENCE;
                    position + 1
                }
            };
        }
        outcomes
    }

    fn start(
        &self,
        proc: &Path,
        requests: &Arc<[Request]>,
        range: std::ops::Range<usize>,
        progress: &Arc<Mutex<Progress>>,
    ) -> io::Result<Receiver<Infallible>> {
        let (sender, receiver) = channel();
        let mut worker = Worker {
            _end_of_work: sender,
            blocked: Arc::clone(&self.blocked),
            probed: Probed::new(proc.to_owned()),
            progress: Arc::clone(progress),
        };
        let requests = Arc::clone(requests);
        // Never joined: it may be blocked for ever.
        std::thread::Builder::new()
            .name("taskscope-ipc".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || worker.work(&requests, range))?;
        Ok(receiver)
    }

    /// Waits until the worker is done, or returns the request and the part of it in which it began no other read for
    /// the time of `patience`.
    fn wait(
        &self,
        end_of_work: &Receiver<Infallible>,
        progress: &Mutex<Progress>,
        patience: Duration,
        requests: &[Request],
    ) -> Option<(usize, &'static str)> {
        let mut reads = 0;
        loop {
            if let Err(RecvTimeoutError::Disconnected) = end_of_work.recv_timeout(patience) {
                return None;
            }
            let mut progress = lock(progress);
            if let Some((position, part)) = progress.current.filter(|_| progress.reads == reads) {
                progress.is_abandoned = true;
                lock(&self.blocked).insert(requests[position].id);
                return Some((position, part));
            }
            reads = progress.reads;
        }
    }
}

struct Worker {
    /// Goes away with the worker, and who waits sees it.
    _end_of_work: Sender<Infallible>,
    blocked: Arc<Mutex<BTreeSet<ProcessId>>>,
    probed: Probed,
    progress: Arc<Mutex<Progress>>,
}

impl Worker {
    fn work(&mut self, requests: &[Request], range: std::ops::Range<usize>) {
        for position in range {
            let request = &requests[position];
            let progress = Arc::clone(&self.progress);
            let begin = |part| {
                let mut progress = lock(&progress);
                progress.current = Some((position, part));
                progress.reads += 1;
            };
            let answer = |answer| lock(&progress).answers.push((position, answer));
            self.probed.process(request, begin, answer);
            let mut progress = lock(&self.progress);
            progress.current = None;
            if progress.is_abandoned {
                lock(&self.blocked).remove(&request.id);
                return;
            }
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
