//! What a stack helper process runs: it reads Python stacks, with our own reader or py-spy, until its input ends.
//!
//! It is a process and not a thread because a read can hang in the kernel, and only a process can be given up. It ends
//! with the collector, whatever it is doing, when the other end of its input closes. (The kernel's parent-death signal
//! is no use here: it comes when the *thread* that started the helper ends.)

use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};

use model::GapCode;
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Resource, Rlimit, setrlimit};

use super::reader::Reader;
use super::wire::{self, Answer, Hello, Outcome, Request};

/// The name of a helper in `ps` and `top`; 15 bytes at most.
const NAME: &std::ffi::CStr = c"taskscope-stack";

/// Memory that a helper may map, bytes: what it reads of a process may hold any length.
const MOST_MEMORY: u64 = 4 << 30;

/// Answers requests from `input` on `output` until `input` ends; then **ends this process** at once. For the hidden
/// command that [`crate::StackSource::Embedded`] names, on its standard input and output. Returns when `output` is
/// closed or `input` holds something else than requests.
pub fn stack_helper(input: impl Read + Send + 'static, mut output: impl Write) -> ExitCode {
    settle(NAME);
    let requests = listen(input);
    if wire::write(&mut output, &Hello::ours()).is_err() {
        return ExitCode::FAILURE;
    }
    let mut reader = Reader::default();
    for request in requests {
        reader.begin(&request.keep, &request.locals, &request.focus);
        for process in request.processes {
            let outcome = reader.read(process, request.nonblocking);
            if answer(&mut output, &Answer { outcome, process }).is_err() {
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::FAILURE
}

/// Makes this process quiet and harmless, and gives it the name that `ps` shows. Nothing here is needed to read, so
/// failures are ignored.
pub(crate) fn settle(name: &std::ffi::CStr) {
    let _ = rustix::thread::set_name(name);
    let _ = std::env::set_current_dir("/");
    // The inherited mask goes. What ends or stops a program politely is not for us: a service manager that sends
    // SIGTERM to all of its processes still wants the last snapshot.
    let deaf = [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
        Signal::SIGTSTP,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
    ];
    let _ = deaf.into_iter().collect::<SigSet>().thread_set_mask();
    let most = Rlimit {
        current: Some(MOST_MEMORY),
        maximum: Some(MOST_MEMORY),
    };
    let _ = setrlimit(Resource::As, most);
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
}

/// Reads requests on a thread of their own, which notices the end of `input` while a read hangs.
fn listen(mut input: impl Read + Send + 'static) -> Receiver<Request> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        loop {
            match wire::read::<Request>(&mut input) {
                Ok(request) => {
                    if sender.send(request).is_err() {
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

#[expect(clippy::exit, reason = "the main thread may hang in a read")]
fn end() -> ! {
    std::process::exit(0)
}

fn answer(output: &mut impl Write, answer: &Answer) -> std::io::Result<()> {
    match wire::encode(answer) {
        Ok(frame) => {
            output.write_all(&frame)?;
            output.flush()
        }
        Err(error) => {
            let outcome = Outcome::Refused {
                code: GapCode::Failed,
                detail: error.to_string(),
                remedy: None,
            };
            let process = answer.process;
            wire::write(output, &Answer { outcome, process })
        }
    }
}
