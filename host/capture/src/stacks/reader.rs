//! The inside of a stack helper: handles that stay open between captures, of our own reader where it knows the Python and
//! can make sense of it, else of py-spy.
//!
//! A handle is a PID and a few addresses, so whose it is gets checked before and after each read. Memory is read while
//! the process runs; a torn read is repeated at once.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use model::{GapCode, ProcessId, StackSourceName};

use super::complaint::{Build, Complaint, ONLY_PY_SPY, remedy};
use super::convert;
use super::image::{Image, NoImage, Stat};
use super::interpreter::Interpreter;
use super::reach::{Ask, Reach};
use super::way::{Failure, Traces, Way};
use super::wire::Outcome;
use crate::frames::WantedNumbers;
use crate::helper::passing;
use crate::python;
use crate::rights::PY_SPY_ITSELF;

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
    /// Until which round, and how often, our own reader could make no sense of a process.
    distrusted: HashMap<ProcessId, (u64, u32)>,
    numbers: WantedNumbers,
    round: u64,
    scratch: Vec<u8>,
}

struct Handle {
    image: Image,
    interpreter: Option<Interpreter>,
    nonblocking: bool,
    way: Way,
}

/// That an image is not Python, or none that py-spy knows. It may still be starting, or load Python later, so it is
/// looked at again after 1, 2, 4 … captures.
struct Belief {
    image: Image,
    outcome: Outcome,
    times: u32,
    until_round: u64,
}

impl Reader {
    /// Begins a capture: forgets all processes that are not in `keep`. The numbers of `locals` are wanted, of the frames of
    /// `focus` and of the main module.
    pub(super) fn begin(&mut self, keep: &[ProcessId], locals: &[String], focus: &[String]) {
        let keep: HashSet<ProcessId> = keep.iter().copied().collect();
        self.distrusted.retain(|process, _| keep.contains(process));
        self.handles.retain(|process, _| keep.contains(process));
        self.beliefs.retain(|process, _| keep.contains(process));
        self.round += 1;
        if !self.numbers.is_of(locals, focus) {
            self.numbers = WantedNumbers::new(locals, focus);
            for handle in self.handles.values_mut() {
                if let Way::Own(frames) = &mut handle.way {
                    frames.forget();
                }
            }
        }
    }

    /// Reads the stacks of `process`, whose memory `ask` gets where we may not open it.
    pub(super) fn read(
        &mut self,
        process: ProcessId,
        nonblocking: bool,
        ask: &mut Ask<'_>,
    ) -> Outcome {
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
            let result = self.attempt(&image, nonblocking, ask);
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
                    return self.pack(process, &stat, traces);
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

    fn attempt(
        &mut self,
        image: &Image,
        nonblocking: bool,
        ask: &mut Ask<'_>,
    ) -> Result<Traces, Failure> {
        let process = image.process;
        let until = self.distrusted.get(&process).map(|&(until, _)| until);
        let is_trusted_again = until.is_some_and(|until| self.round >= until);
        let fits = self.handles.get(&process).is_some_and(|handle| {
            handle.image == *image
                && handle.nonblocking == nonblocking
                && !(is_trusted_again && matches!(handle.way, Way::PySpy(_)))
        });
        if !fits {
            let handle = self.open(image, nonblocking, ask)?;
            self.handles.insert(process, handle);
        }
        let handle = self
            .handles
            .get_mut(&process)
            .expect("it is there or was just put there");
        let read = handle.way.read(&self.numbers, &mut self.scratch);
        read.inspect_err(|failure| {
            if failure.is_senseless {
                self.distrust(process);
            }
        })
    }

    fn open(&self, image: &Image, nonblocking: bool, ask: &mut Ask<'_>) -> Result<Handle, Failure> {
        let process = image.process;
        let memory = Reach::to(process.pid, ask);
        let interpreter = memory.file();
        let interpreter = interpreter.and_then(|memory| Interpreter::of(image, memory));
        if let Some(interpreter) = interpreter.as_ref().filter(|it| it.is_free_threaded) {
            let words = format_args!("free-threaded {interpreter}");
            return Err(Failure::unsupported(words));
        }
        let until = self.distrusted.get(&process).map_or(0, |&(until, _)| until);
        let is_handed = matches!(memory, Reach::Handed(_));
        let own = match &interpreter {
            Some(interpreter) if nonblocking && (is_handed || self.round >= until) => {
                Way::own(process.pid, interpreter, memory)?
            }
            _ => None,
        };
        let way = match own {
            Some(way) => way,
            None if is_handed => {
                let is_named = interpreter.is_some() || is_named(image);
                return Err(Failure::barred(interpreter.as_ref(), is_named, nonblocking));
            }
            None => Way::py_spy(process.pid, interpreter.as_ref(), nonblocking)?,
        };
        Ok(Handle {
            image: image.clone(),
            interpreter,
            nonblocking,
            way,
        })
    }

    /// Leaves a process to py-spy for 1, 2, 4 … captures.
    fn distrust(&mut self, process: ProcessId) {
        self.handles.remove(&process);
        let times = self.distrusted.get(&process).map_or(0, |&(_, times)| times);
        let captures = 2_u64.saturating_pow(times).min(LONGEST_BELIEF);
        let until = self.round + captures;
        self.distrusted.insert(process, (until, times + 1));
    }

    fn pack(&mut self, process: ProcessId, stat: &Stat, traces: Traces) -> Outcome {
        let version = self.version(process);
        match traces {
            Traces::Own(look) => {
                let handle = self.handles.get_mut(&process);
                let Some(Way::Own(frames)) = handle.map(|handle| &mut handle.way) else {
                    unreachable!("it has just read them");
                };
                let state = |id| frames.state(id);
                let (stacks, numbers) = convert::pack_look(process.pid, stat, &look, state);
                Outcome::Traces {
                    numbers,
                    source: StackSourceName::Own,
                    stacks,
                    version,
                }
            }
            Traces::PySpy(traces) => match convert::pack(process.pid, stat, traces) {
                Ok(stacks) => Outcome::Traces {
                    numbers: Vec::new(),
                    source: StackSourceName::Embedded,
                    stacks,
                    version,
                },
                Err(detail) => refused(GapCode::Failed, detail),
            },
        }
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
            Complaint::Gap(code) if failure.contains(ONLY_PY_SPY) => Outcome::Refused {
                code,
                detail: failure,
                remedy: Some(PY_SPY_ITSELF.sentence.to_owned()),
            },
            Complaint::Gap(code) => refused(code, failure),
        };
        let lasting = match &outcome {
            Outcome::NotPython => true,
            Outcome::Refused { code, .. } => *code == GapCode::Unsupported,
            Outcome::NeedsMemory | Outcome::Traces { .. } => false,
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

/// Whether the name of its executable or of a file that it maps is one of Python.
fn is_named(image: &Image) -> bool {
    let maps = || std::fs::read(format!("/proc/{}/maps", image.process.pid));
    python::is_name(&image.exe.to_string_lossy())
        || maps().is_ok_and(|maps| python::is_mapped(&maps))
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
    let memory = passing::open_memory_of(Path::new("/proc"), image.process.pid).ok();
    let interpreter = memory.and_then(|memory| Interpreter::of(image, &memory));
    let (version, is_free_threaded) = match interpreter {
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
