//! What a GPU helper process runs: it asks the driver's library until its input ends.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Signal, getpid, kill_process};

use super::library::Library;
use super::wire::{Part, Question};
use crate::stacks::helper::settle;
use crate::stacks::wire::{self, Hello};

/// The name of a helper in `ps` and `top`; 15 bytes at most.
const NAME: &std::ffi::CStr = c"taskscope-gpu";

/// Answers questions from `input` on `output` until `input` ends; then **kills this process**. For the hidden command
/// that [`crate::GpuSettings`] names, on its standard input and output. Returns when `output` is closed or `input` holds
/// something else than questions.
pub fn gpu_helper(input: impl Read + Send + 'static, mut output: impl Write) -> ExitCode {
    settle(NAME);
    let questions = listen(input);
    if wire::write(&mut output, &Hello::ours()).is_err() {
        return ExitCode::FAILURE;
    }
    let mut library = Library::default();
    for question in questions {
        let mut tell = |part: Part| wire::write(&mut output, &part);
        let told = library.look(question.library.as_deref(), &mut tell);
        if told.and_then(|()| tell(Part::End)).is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::FAILURE
}

/// Reads questions on a thread of their own, which notices the end of `input` while the driver hangs.
fn listen(mut input: impl Read + Send + 'static) -> Receiver<Question> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        loop {
            match wire::read::<Question>(&mut input) {
                Ok(question) => {
                    if sender.send(question).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => end(),
                Err(_) => return,
            }
        }
    });
    receiver
}

/// Ends this process at once. An orderly exit would run the library's own end, which may wait for what hangs.
fn end() {
    _ = kill_process(getpid(), Signal::KILL);
}
