//! The two ways to read the stacks of a process: our own reader of frames, and the py-spy library.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use model::GapCode;
use py_spy::config::LockingStrategy;
use py_spy::{Config, PythonSpy, StackTrace};

use super::complaint::{Complaint, ONLY_PY_SPY};
use super::interpreter::Interpreter;
use super::reach::Reach;
use crate::frames::{Frames, Look, Trouble, WantedNumbers};

/// Who reads.
pub(super) enum Way {
    /// Our own reader.
    Own(Box<Frames>),
    /// py-spy.
    PySpy(Box<PythonSpy>),
}

/// What was read.
pub(super) enum Traces {
    /// By our own reader.
    Own(Rc<Look>),
    /// By py-spy.
    PySpy(Vec<StackTrace>),
}

/// Why an attempt failed.
pub(super) struct Failure {
    /// In words, of which a complaint makes a gap.
    pub(super) text: String,
    /// Whether it may go well the next time.
    pub(super) again: bool,
    /// Whether our own reader could make no sense of what it read.
    pub(super) is_senseless: bool,
}

impl Failure {
    fn new(text: String, again: bool) -> Self {
        Self {
            text,
            again,
            is_senseless: false,
        }
    }

    /// It is no Python that is read here.
    pub(super) fn unsupported(words: std::fmt::Arguments<'_>) -> Self {
        Self::new(format!("Unsupported version of Python: {words}"), false)
    }

    /// That our own reader does not know it, whose memory the collector handed us, and that py-spy has no right to it. What
    /// is not even named like Python is none.
    pub(super) fn barred(
        interpreter: Option<&Interpreter>,
        is_named: bool,
        nonblocking: bool,
    ) -> Self {
        let it = match interpreter {
            Some(it) if !nonblocking => format!("Python {it} with nonblocking = false"),
            Some(it) => format!("Python {it}"),
            None if is_named => "what may be Python".to_owned(),
            None => {
                return Self::new(
                    "Failed to find python version in its memory".to_owned(),
                    false,
                );
            }
        };
        let words = "and the memory of this process is refused to all but its ancestors";
        Self::new(
            format!("Permission denied: {ONLY_PY_SPY} {it}, {words}"),
            false,
        )
    }

    /// Words that mean what the trouble is.
    fn of(trouble: &Trouble) -> Self {
        match trouble {
            Trouble::Barred(error) => Self::new(error.to_string(), false),
            Trouble::Gone => Self::new("No such process (os error 3)".to_owned(), true),
            Trouble::Torn(words) => Self {
                is_senseless: true,
                ..Self::new(format!("Bad address: {words}"), true)
            },
        }
    }
}

impl Way {
    /// Opens our own reader of the process `pid`; nothing for a Python that it does not know.
    pub(super) fn own(
        pid: i32,
        interpreter: &Interpreter,
        memory: Reach,
    ) -> Result<Option<Self>, Failure> {
        let (Some(runtime), (3, minor)) = (interpreter.runtime, interpreter.series) else {
            return Ok(None);
        };
        let opened = match memory {
            Reach::Handed(memory) => Frames::open_handed(memory, pid, minor, runtime),
            // By the system call, which takes many pieces at a time.
            Reach::Own(_) | Reach::Barred => Frames::open(pid, minor, runtime),
        };
        match opened {
            Ok(frames) => Ok(frames.map(|frames| Self::Own(Box::new(frames)))),
            // py-spy may find it elsewhere.
            Err(Trouble::Torn(_)) => Ok(None),
            Err(trouble) => Err(Failure::of(&trouble)),
        }
    }

    /// Opens py-spy on the process `pid`, which may have to stop it for each reading if it is not `nonblocking`.
    pub(super) fn py_spy(
        pid: i32,
        interpreter: Option<&Interpreter>,
        nonblocking: bool,
    ) -> Result<Self, Failure> {
        let spy = guarded(|| PythonSpy::new(pid, &config(nonblocking)))?;
        let taken_for = (spy.version.major, spy.version.minor);
        if let Some(interpreter) = interpreter.filter(|it| it.series != taken_for) {
            let words = format_args!("py-spy takes {interpreter} for {}", spy.version);
            return Err(Failure::unsupported(words));
        }
        Ok(Self::PySpy(Box::new(spy)))
    }

    /// Reads all stacks, and the numbers that are wanted, if it can.
    pub(super) fn read(
        &mut self,
        wanted: &WantedNumbers,
        scratch: &mut Vec<u8>,
    ) -> Result<Traces, Failure> {
        match self {
            Self::Own(frames) => {
                let read = catch_unwind(AssertUnwindSafe(|| frames.read(wanted, scratch)));
                let read = read.unwrap_or(Err(Trouble::Torn("our reader panicked")));
                read.map(Traces::Own)
                    .map_err(|trouble| Failure::of(&trouble))
            }
            Self::PySpy(spy) => {
                let traces = guarded(|| spy.get_stack_traces());
                traces.map(Traces::PySpy).map_err(|mut failure| {
                    // On an open handle anything but a refusal may be a torn read or a handle gone stale.
                    let denied = Complaint::Gap(GapCode::Denied);
                    failure.again |= Complaint::of(&failure.text) != denied;
                    failure
                })
            }
        }
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
            Err(Failure::new(text, again))
        }
        Err(payload) => {
            let words = payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| payload.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(Failure::new(format!("py-spy panicked: {words}"), true))
        }
    }
}
