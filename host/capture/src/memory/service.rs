//! What reads: in a memory helper process until its input ends; or in place, where there is no helper.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::connections;
use super::executables::Executables;
use super::handed::Handed;
use super::image;
use super::wire::{self, Job, Piece, Request, Task};
use crate::allocator::Starts;
use crate::helper::frame::{self, Hello};
use crate::helper::service::{self, Said};
use crate::proc::Reader;
use crate::proc::reader::open_process;

/// The name of a helper in `ps` and `top`; 15 bytes at most.
const NAME: &std::ffi::CStr = c"taskscope-mem";

/// Memory that a helper may map, bytes: what it reads of a process has limits of its own.
const MOST_MEMORY: u64 = 2 << 30;

/// So long `maps` of one request are read; those of a large process take a millisecond.
const MAPS_BUDGET: Duration = Duration::from_millis(20);

/// Answers requests from `input` on `output` until `input` ends; then **kills this process**. For the hidden
/// command that [`crate::Machine::with_memory_helper`] is given, on its standard input and output. Returns when `output` is
/// closed or `input` holds something else than requests.
pub fn memory_helper(input: impl AsFd + Send + 'static, mut output: impl Write) -> ExitCode {
    service::settle(NAME, MOST_MEMORY);
    service::have_many_descriptors();
    let requests = service::listen(input, wire::decode);
    if frame::write(&mut output, &Hello::of(wire::PROTOCOL)).is_err() {
        return ExitCode::FAILURE;
    }
    let (mut service, mut starts) = (Service::default(), Starts::default());
    while let Ok(said) = requests.recv() {
        let Said::Request(request) = said else {
            continue; // none was asked for
        };
        let mut sink = Sink::new(To::Pipe(&mut output, &requests));
        service.answer(
            Path::new(&request.proc),
            &request.names,
            &request.jobs,
            &mut sink,
        );
        sink.flush();
        if sink.is_closed {
            return ExitCode::FAILURE;
        }
        starts.done();
    }
    ExitCode::FAILURE
}

/// Reads processes, and remembers what it found in files.
#[derive(Default)]
pub(super) struct Service {
    pub(super) executables: Executables,
    pub(super) handed: Handed,
    pub(super) reader: Reader,
}

impl Service {
    /// Does `jobs` on the processes below the root `proc`.
    pub(super) fn answer(
        &mut self,
        proc: &Path,
        names: &[String],
        jobs: &[Job],
        sink: &mut Sink<'_>,
    ) {
        self.handed.keep(jobs);
        let maps_until = Instant::now() + MAPS_BUDGET;
        for (position, job) in jobs.iter().enumerate() {
            sink.position = position;
            // A process that is gone or has become another one has no answers; who asked finds that out.
            if let Ok(directory) = open_process(proc, job.id.pid) {
                match &job.task {
                    Task::Image { .. } => image::read(self, &directory, job, names, sink),
                    Task::Rollup => image::read_rollup(self, &directory, job, sink),
                    Task::Connections { .. } => {
                        connections::read(self, &directory, job, maps_until, sink);
                    }
                }
            }
            sink.say(Piece::Done);
            if sink.is_closed {
                return;
            }
        }
    }
}

/// Where answers go.
pub(super) struct Sink<'a> {
    buffer: Vec<u8>,
    /// Whether nobody listens any more.
    is_closed: bool,
    /// Which job is being done.
    position: usize,
    to: To<'a>,
}

/// Where answers go.
pub(super) enum To<'a> {
    /// To who asked, at once.
    Here(&'a mut dyn FnMut(usize, Piece)),
    /// Into the pipe to the collector, before a read that can block and at the end; it may be asked back.
    Pipe(&'a mut dyn Write, &'a Receiver<Said<Request<Vec<Job>>>>),
}

impl<'a> Sink<'a> {
    pub(super) fn new(to: To<'a>) -> Self {
        Self {
            buffer: vec![0; 4],
            is_closed: false,
            position: 0,
            to,
        }
    }

    /// Gives one answer.
    pub(super) fn say(&mut self, piece: Piece) {
        match &mut self.to {
            To::Here(take) => take(self.position, piece),
            To::Pipe(..) => {
                let position = u32::try_from(self.position).expect("there are fewer processes");
                let buffer = std::mem::take(&mut self.buffer);
                match postcard::to_extend(&(position, piece), buffer) {
                    Ok(buffer) => self.buffer = buffer,
                    Err(_) => self.is_closed = true,
                }
            }
        }
    }

    /// Asks the collector for the memory of the process of this job; nothing where it may not open it either, or where
    /// there is no other than us.
    pub(super) fn ask_for_memory(&mut self) -> Option<File> {
        let To::Pipe(_, requests) = self.to else {
            return None;
        };
        self.say(Piece::NeedsMemory);
        self.flush();
        match requests.recv() {
            Ok(Said::Memory(memory)) => memory,
            _ => None,
        }
    }

    /// Sends what was said: what comes next may block.
    pub(super) fn flush(&mut self) {
        let To::Pipe(output, _) = &mut self.to else {
            return;
        };
        if self.buffer.len() <= 4 {
            return;
        }
        let sent = frame::close(&mut self.buffer)
            .and_then(|()| output.write_all(&self.buffer))
            .and_then(|()| output.flush());
        self.is_closed |= sent.is_err();
        self.buffer.truncate(4);
    }
}
