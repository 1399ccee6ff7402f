//! What a stack helper process runs: it reads Python stacks, with our own reader or py-spy, until its input ends.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::mpsc::Receiver;

use model::{GapCode, ProcessId};

use super::reader::Reader;
use super::wire::{self, Answer, Outcome, Request};
use crate::allocator::Starts;
use crate::helper::frame::{self, Hello};
use crate::helper::service::{self, Said};

/// The name of a helper in `ps` and `top`; 15 bytes at most.
const NAME: &std::ffi::CStr = c"taskscope-stack";

/// Memory that a helper may map, bytes: what it reads of a process may hold any length.
const MOST_MEMORY: u64 = 4 << 30;

/// Answers requests from `input` on `output` until `input` ends; then **kills this process**. For the hidden
/// command that [`crate::StackSource::Embedded`] names, on its standard input and output. Returns when `output` is
/// closed or `input` holds something else than requests.
pub fn stack_helper(input: impl AsFd + Send + 'static, mut output: impl Write) -> ExitCode {
    service::settle(NAME, MOST_MEMORY);
    service::have_many_descriptors();
    let requests = service::listen(input, wire::decode::<Request>);
    if frame::write(&mut output, &Hello::of(wire::PROTOCOL)).is_err() {
        return ExitCode::FAILURE;
    }
    let (mut reader, mut starts) = (Reader::default(), Starts::default());
    while let Ok(said) = requests.recv() {
        let Said::Request(request) = said else {
            continue; // none was asked for
        };
        reader.begin(&request.keep, &request.locals, &request.focus);
        for process in request.processes {
            let mut ask = || ask_for_memory(process, &mut output, &requests);
            let outcome = reader.read(process, request.nonblocking, &mut ask);
            if answer(&mut output, &Answer { outcome, process }).is_err() {
                return ExitCode::FAILURE;
            }
        }
        starts.done();
    }
    ExitCode::FAILURE
}

/// Asks the collector for the memory of `process`; nothing where it has no right either.
fn ask_for_memory(
    process: ProcessId,
    output: &mut impl Write,
    requests: &Receiver<Said<Request>>,
) -> Option<File> {
    let outcome = Outcome::NeedsMemory;
    answer(output, &Answer { outcome, process }).ok()?;
    match requests.recv() {
        Ok(Said::Memory(memory)) => memory,
        _ => None,
    }
}

fn answer(output: &mut impl Write, answer: &Answer) -> std::io::Result<()> {
    let frame = wire::encode(answer).or_else(|error| {
        let outcome = Outcome::Refused {
            code: GapCode::Failed,
            detail: error.to_string(),
            remedy: None,
        };
        let process = answer.process;
        wire::encode(&Answer { outcome, process })
    });
    output.write_all(&frame?)?;
    output.flush()
}
