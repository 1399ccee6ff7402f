//! Compiling in a process of its own, seen from the collector.

use std::ffi::OsString;
use std::fs::File;
use std::io::{PipeReader, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use helper::{OwnProcess, Register, State};
use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use crate::compile::{COMPILED, OUT_OF_TIME, REFUSED, UNWRITTEN, USED};
use crate::text::one_line;

/// Words of a compiler that are read, bytes; a panic's message with its backtrace fits.
const WORDS_BYTES: usize = 64 << 10;
/// How long a compiler may take to end after its last word, or to die.
const ENDING: Duration = Duration::from_millis(500);

/// What compiles components, and where the results are kept.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// What makes `program` run [`crate::compile_plugin`], such as the hidden command; the limits
    /// follow, as [`CompileLimits::arguments`] writes them.
    pub arguments: Vec<OsString>,
    /// The directory for compiled components; it is made where it is missing. Without one, and where it cannot be
    /// trusted, each start compiles anew.
    pub cache: Option<PathBuf>,
    /// Where the compiler's processes are known while they live.
    pub helpers: Register,
    /// What a component may cost to compile.
    pub limits: CompileLimits,
    /// The program to start: our own binary.
    pub program: PathBuf,
}

/// What a component may cost to compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// CPU time.
    pub cpu: Duration,
    /// Address space of the process that compiles, bytes.
    pub memory_bytes: u64,
    /// How far it stands back behind all others, as in `nice(1)`: 19 is the farthest.
    pub nice: u8,
    /// Time on the clock. More than the CPU time: on a machine that is busy the task comes first, which is no fault of
    /// the component.
    pub wall: Duration,
}

impl Default for CompileLimits {
    /// The largest components that we know, Python's and JavaScript's, take 380 MB and 13 seconds.
    fn default() -> Self {
        Self {
            cpu: Duration::from_mins(1),
            memory_bytes: 1 << 30,
            nice: 19,
            wall: Duration::from_mins(10),
        }
    }
}

impl CompileLimits {
    /// Returns what the process itself sees to, as arguments of a command: seconds of CPU time, bytes, and its `nice`.
    pub fn arguments(self) -> [String; 3] {
        let numbers = [self.cpu.as_secs(), self.memory_bytes, self.nice.into()];
        numbers.map(|number| number.to_string())
    }
}

/// Why a component is not compiled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompileError {
    #[error("cannot start {program} to compile it: {source}")]
    Start {
        program: PathBuf,
        source: std::io::Error,
    },
    #[error("not a WebAssembly component: {0}")]
    Refused(String),
    #[error("compiling it took longer than {0:?}")]
    Late(Duration),
    #[error("compiling it took more than {0:?} of CPU time")]
    OutOfTime(Duration),
    #[error("compiling it took more than {} MiB of memory", .0 >> 20)]
    OutOfMemory(u64),
    #[error("its code could not be kept: {0}")]
    Unwritten(String),
    #[error("the process that compiled it {0}")]
    Ended(String),
    #[error("taskscope ended before it was compiled")]
    Closing,
}

impl CompileError {
    /// Returns whether the component is not to blame, so that it may be compiled another time.
    pub(crate) fn is_passing(&self) -> bool {
        !matches!(
            self,
            Self::Refused(_) | Self::OutOfMemory(_) | Self::OutOfTime(_)
        )
    }
}

impl Compiler {
    /// Compiles the component in `input` into `output`, one at a time, until `closing` is closed on its other side.
    pub(crate) fn compile(
        &self,
        input: File,
        output: File,
        closing: &PipeReader,
    ) -> Result<(), CompileError> {
        let failed = |source| CompileError::Start {
            program: self.program.clone(),
            source,
        };
        // Its standard error is also its lifeline: it ends when our side closes.
        let (words, theirs) = std::io::pipe().map_err(failed)?;
        let mut command = Command::new(&self.program);
        command
            .arg0(helper::SHOWN_AS)
            .args(&self.arguments)
            .args(self.limits.arguments())
            .stdin(input)
            .stdout(output)
            .stderr(Stdio::from(theirs));
        let started = OwnProcess::start(&mut command, &self.helpers);
        drop(command); // with our copy of the pipe's other end
        let (process, _) = started.map_err(failed)?;
        let words = listen(words, closing, self.limits.wall);
        match &words {
            Ok(words) => {
                if let Some(used) = used(words) {
                    self.helpers.note_used(process.pid(), used);
                }
            }
            Err(_) => process.kill(),
        }
        let state = process.state(ENDING);
        self.judge(&words?, state)
    }

    fn judge(&self, words: &str, state: State) -> Result<(), CompileError> {
        let last = words.lines().last().unwrap_or_default();
        if last == COMPILED {
            return Ok(());
        }
        if let Some(reason) = last.strip_prefix(REFUSED) {
            return Err(CompileError::Refused(reason.to_owned()));
        }
        if let Some(reason) = last.strip_prefix(UNWRITTEN) {
            return Err(CompileError::Unwritten(reason.to_owned()));
        }
        if last == OUT_OF_TIME || state == State::Killed(Signal::XCPU.as_raw()) {
            return Err(CompileError::OutOfTime(self.limits.cpu));
        }
        if words.contains("memory allocation of") || words.contains("Cannot allocate memory") {
            return Err(CompileError::OutOfMemory(self.limits.memory_bytes));
        }
        let ended = match state {
            State::Killed(signal) => format!("was killed by signal {signal}"),
            _ => "ended".to_owned(),
        };
        let words = one_line(words, 256);
        Err(CompileError::Ended(if words.is_empty() {
            format!("{ended} without a word")
        } else {
            format!("{ended}: {words}")
        }))
    }
}

/// Returns the CPU time that a compiler says it has used.
fn used(words: &str) -> Option<Duration> {
    let told = words.lines().rev().find_map(|line| line.strip_prefix(USED));
    told?.parse().map(Duration::from_millis).ok()
}

/// Returns all that the compiler has to say.
fn listen(
    mut pipe: PipeReader,
    closing: &PipeReader,
    limit: Duration,
) -> Result<String, CompileError> {
    let until = Instant::now() + limit;
    let mut words = Vec::new();
    loop {
        let mut ready = [
            PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(closing.as_fd(), PollFlags::IN),
        ];
        match helper::wait_for_any(&mut ready, until) {
            Ok(true) if ready[1].revents().is_empty() => {}
            Ok(true) => return Err(CompileError::Closing),
            Ok(false) => return Err(CompileError::Late(limit)),
            Err(error) => return Err(CompileError::Ended(format!("cannot be heard: {error}"))),
        }
        let mut chunk = [0; 4 << 10];
        let count = pipe.read(&mut chunk).unwrap_or(0);
        if count == 0 {
            return Ok(String::from_utf8_lossy(&words).into_owned());
        }
        words.extend_from_slice(&chunk[..count]);
        words.drain(..words.len().saturating_sub(WORDS_BYTES));
    }
}
