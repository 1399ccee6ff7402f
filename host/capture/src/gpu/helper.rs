//! What a GPU helper process runs: it asks the driver's library until its input ends.

use std::io::Write;
use std::os::fd::AsFd;
use std::process::ExitCode;

use super::library::Library;
use super::wire::{PROTOCOL, Part, Question};
use crate::helper::frame::{self, Hello};
use crate::helper::service::{self, Said};

/// The name of a helper in `ps` and `top`; 15 bytes at most.
const NAME: &std::ffi::CStr = c"taskscope-gpu";

/// Memory that a helper may map, bytes.
const MOST_MEMORY: u64 = 4 << 30;

/// Answers questions from `input` on `output` until `input` ends; then **kills this process**. For the hidden command
/// that [`crate::GpuSettings`] names, on its standard input and output. Returns when `output` is closed or `input` holds
/// something else than questions.
pub fn gpu_helper(input: impl AsFd + Send + 'static, mut output: impl Write) -> ExitCode {
    service::settle(NAME, MOST_MEMORY);
    let questions = service::listen(input, frame::decode::<Question>);
    if frame::write(&mut output, &Hello::of(PROTOCOL)).is_err() {
        return ExitCode::FAILURE;
    }
    let mut library = Library::default();
    for said in questions {
        let Said::Request(question) = said else {
            continue; // it asks for none
        };
        let mut tell = |part: Part| frame::write(&mut output, &part);
        let told = library.look(question.library.as_deref(), &mut tell);
        if told.and_then(|()| tell(Part::End)).is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::FAILURE
}
