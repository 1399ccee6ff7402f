//! The inside of a stack helper: py-spy handles that stay open between captures.
//!
//! A handle is a PID and a few addresses, so whose it is gets checked before and after each read. Memory is read while
//! the process runs; a torn read is repeated at once.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use model::{GapCode, ProcessId};
use py_spy::config::LockingStrategy;
use py_spy::{Config, PythonSpy, StackTrace};

use super::complaint::{Build, Complaint, remedy};
use super::convert;
use super::image::{Image, NoImage};
use super::interpreter::Interpreter;
use super::wire::Outcome;
use crate::python;

/// The first attempt and three more.
const ATTEMPTS: u32 = 4;

/// The attempt before which the handle is opened anew, because it may be the handle that is wrong.
const REOPEN_AT: u32 = 2;

/// The most captures for which "not Python" or "unsupported" is believed without a new look.
const LONGEST_BELIEF: u64 = 32;

/// The open handles and what is known of processes that have none.
#[derive(Default)]
pub(super) struct Reader {
    handles: HashMap<ProcessId, Handle>,
    beliefs: HashMap<ProcessId, Belief>,
    round: u64,
}

struct Handle {
    image: Image,
    interpreter: Option<Interpreter>,
    nonblocking: bool,
    spy: PythonSpy,
}

/// That an image is not Python, or none that py-spy knows. It may still be starting, or load Python later, so it is
/// looked at again after 1, 2, 4 … captures.
struct Belief {
    image: Image,
    outcome: Outcome,
    times: u32,
    until_round: u64,
}

/// Why an attempt failed.
struct Failure {
    text: String,
    again: bool,
}

impl Reader {
    /// Begins a capture: forgets all processes that are not in `keep`.
    pub(super) fn begin(&mut self, keep: &[ProcessId]) {
        let keep: HashSet<ProcessId> = keep.iter().copied().collect();
        self.handles.retain(|process, _| keep.contains(process));
        self.beliefs.retain(|process, _| keep.contains(process));
        self.round += 1;
    }

    /// Reads the stacks of `process`.
    pub(super) fn read(&mut self, process: ProcessId, nonblocking: bool) -> Outcome {
        let mut image = match Image::of(process) {
            Ok((image, _)) => image,
            Err(why) => return no_image(&why),
        };
        if let Some(belief) = self.beliefs.get(&process)
            && belief.image == image
            && self.round < belief.until_round
        {
            return belief.outcome.clone();
        }
        let mut failure = String::new();
        for attempt in 0..ATTEMPTS {
            if attempt == REOPEN_AT {
                self.handles.remove(&process);
            }
            let result = self.attempt(&image, nonblocking);
            let (now, stat) = match Image::of(process) {
                Ok(now) => now,
                Err(why) => return no_image(&why),
            };
            if now != image {
                self.handles.remove(&process);
                image = now;
                "Bad address: its program changed while it was read".clone_into(&mut failure);
                continue;
            }
            match result {
                Ok(traces) => {
                    self.beliefs.remove(&process);
                    return match convert::pack(process.pid, &stat, traces) {
                        Ok(stacks) => Outcome::Traces {
                            stacks,
                            version: self.version(process),
                        },
                        Err(detail) => refused(GapCode::Failed, detail),
                    };
                }
                Err(why) => {
                    failure = why.text;
                    if !why.again {
                        break;
                    }
                }
            }
        }
        self.handles.remove(&process);
        self.conclude(image, failure)
    }

    fn attempt(&mut self, image: &Image, nonblocking: bool) -> Result<Vec<StackTrace>, Failure> {
        let process = image.process;
        let fits = self
            .handles
            .get(&process)
            .is_some_and(|handle| handle.image == *image && handle.nonblocking == nonblocking);
        if !fits {
            let interpreter = Interpreter::of(image);
            if let Some(interpreter) = interpreter.as_ref().filter(|it| it.is_free_threaded) {
                return Err(unsupported(format_args!("free-threaded {interpreter}")));
            }
            let spy = guarded(|| PythonSpy::new(process.pid, &config(nonblocking)))?;
            let taken_for = (spy.version.major, spy.version.minor);
            if let Some(interpreter) = interpreter.as_ref().filter(|it| it.series != taken_for) {
                let words = format_args!("py-spy takes {interpreter} for {}", spy.version);
                return Err(unsupported(words));
            }
            let handle = Handle {
                image: image.clone(),
                interpreter,
                nonblocking,
                spy,
            };
            self.handles.insert(process, handle);
        }
        let handle = self
            .handles
            .get_mut(&process)
            .expect("it is there or was just put there");
        guarded(|| handle.spy.get_stack_traces()).map_err(|mut failure| {
            // On an open handle anything but a refusal may be a torn read or a handle gone stale.
            failure.again |= Complaint::of(&failure.text) != Complaint::Gap(GapCode::Denied);
            failure
        })
    }

    fn version(&self, process: ProcessId) -> Option<String> {
        let interpreter = self.handles.get(&process)?.interpreter.as_ref()?;
        Some(interpreter.to_string())
    }

    fn conclude(&mut self, image: Image, failure: String) -> Outcome {
        let outcome = match Complaint::of(&failure) {
            Complaint::NotPython => Outcome::NotPython,
            Complaint::Gap(code @ (GapCode::Unsupported | GapCode::Failed)) => {
                unread(&image, code, &failure)
            }
            Complaint::Gap(code) => refused(code, failure),
        };
        let lasting = match &outcome {
            Outcome::NotPython => true,
            Outcome::Refused { code, .. } => *code == GapCode::Unsupported,
            Outcome::Traces { .. } => false,
        };
        if lasting {
            let process = image.process;
            let times = self
                .beliefs
                .get(&process)
                .filter(|belief| belief.image == image)
                .map_or(0, |belief| belief.times);
            let belief = Belief {
                image,
                outcome: outcome.clone(),
                times: times + 1,
                until_round: self.round + 2_u64.saturating_pow(times).min(LONGEST_BELIEF),
            };
            self.beliefs.insert(process, belief);
        }
        outcome
    }
}

fn config(nonblocking: bool) -> Config {
    Config {
        blocking: if nonblocking {
            LockingStrategy::NonBlocking
        } else {
            LockingStrategy::Lock
        },
        full_filenames: true,
        ..Config::default()
    }
}

/// Calls py-spy, which reads memory that may hold anything: a panic is a failure like others.
fn guarded<T, E: std::fmt::Display>(call: impl FnOnce() -> Result<T, E>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            let text = format!("{error:#}"); // with the causes
            let again = Complaint::of(&text) == Complaint::Gap(GapCode::Torn);
            Err(Failure { text, again })
        }
        Err(payload) => {
            let words = payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| payload.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(Failure {
                text: format!("py-spy panicked: {words}"),
                again: true,
            })
        }
    }
}

fn unsupported(words: std::fmt::Arguments<'_>) -> Failure {
    Failure {
        text: format!("Unsupported version of Python: {words}"),
        again: false,
    }
}

/// Says which Python it is that py-spy failed to read: by its memory, or by the names of its files.
fn unread(image: &Image, code: GapCode, failure: &str) -> Outcome {
    let maps = std::fs::read(format!("/proc/{}/maps", image.process.pid)).unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    let is_lost = |line: &str| line.ends_with(" (deleted)") && python::is_mapped(line.as_bytes());
    if maps.lines().any(is_lost) {
        let words = "its libpython was removed or replaced after it was loaded";
        return refused(GapCode::Unsupported, format!("{words} ({failure})"));
    }
    let exe = image.exe.to_string_lossy();
    let named = || Build::named(maps.lines().chain(std::iter::once(exe.as_ref())));
    let (version, is_free_threaded) = match Interpreter::of(image) {
        Some(interpreter) => (interpreter.to_string(), interpreter.is_free_threaded),
        None => match named() {
            Some(build) => (build.version, build.free_threaded),
            None => return refused(code, failure.to_owned()),
        },
    };
    if is_free_threaded {
        let words = format!("free-threaded CPython {version}: py-spy cannot read it ({failure})");
        return refused(GapCode::Unsupported, words);
    }
    refused(code, format!("Python {version}: {failure}"))
}

fn no_image(why: &NoImage) -> Outcome {
    match why {
        NoImage::Ended(detail) => refused(GapCode::Vanished, (*detail).to_owned()),
        NoImage::Reused => refused(
            GapCode::Reused,
            "the PID names another process now".to_owned(),
        ),
        NoImage::Kernel => Outcome::NotPython,
        NoImage::Io(error) => {
            let text = error.to_string();
            match Complaint::of(&text) {
                Complaint::Gap(code) => refused(code, text),
                Complaint::NotPython => Outcome::NotPython,
            }
        }
    }
}

fn refused(code: GapCode, detail: String) -> Outcome {
    Outcome::Refused {
        code,
        detail,
        remedy: remedy(code),
    }
}
