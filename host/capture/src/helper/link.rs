//! The collector's end of one helper.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use helper::{OwnProcess, Register, State};

use super::HelperProgram;
use super::frame::{self, Hello};
use super::passing;
use super::pipe::{self, Frames, PipeError};

/// How long a helper may take to die of SIGKILL before it is left behind.
const DYING: Duration = Duration::from_millis(200);

/// A running helper.
#[derive(Debug)]
pub(crate) struct Link {
    /// A socket, which a descriptor can go through.
    input: UnixStream,
    output: Frames<ChildStdout>,
    process: OwnProcess,
}

/// Why there is no helper.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        program: PathBuf,
        source: std::io::Error,
    },
    /// It was started and is no helper.
    #[error("{program} is no helper: {source}")]
    Greeting { program: PathBuf, source: PipeError },
    /// It is one of another build.
    #[error("{program} is a helper of version {version} (protocol {protocol})")]
    Other {
        program: PathBuf,
        version: String,
        protocol: u32,
    },
}

impl StartError {
    /// Returns whether it did not greet in time, as on a busy machine.
    pub(crate) fn was_slow(&self) -> bool {
        matches!(
            self,
            Self::Greeting {
                source: PipeError::TimedOut,
                ..
            }
        )
    }
}

impl Link {
    /// Starts a helper that speaks `protocol`, and waits for its greeting.
    pub(crate) fn start(
        helper: &HelperProgram,
        register: &Register,
        protocol: u32,
        until: Instant,
    ) -> Result<Self, StartError> {
        let program = || helper.program.clone();
        let failed = |source| StartError::Start {
            program: program(),
            source,
        };
        let (input, theirs) = UnixStream::pair().map_err(failed)?;
        let mut command = Command::new(&helper.program);
        command
            .arg0(helper::SHOWN_AS)
            .args(&helper.arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let (process, child) = OwnProcess::start(&mut command, register).map_err(failed)?;
        // It holds their end of the socket.
        drop(command);
        let Some(output) = child.stdout else {
            unreachable!("it was asked for as a pipe");
        };
        pipe::set_nonblocking(&input).map_err(failed)?;
        pipe::set_nonblocking(&output).map_err(failed)?;
        let mut link = Self {
            input,
            output: Frames::of(output),
            process,
        };
        let hello = link
            .output
            .next(until)
            .and_then(|payload| Ok(frame::decode::<Hello>(&payload)?))
            .map_err(|source| StartError::Greeting {
                program: program(),
                source,
            })?;
        if hello != Hello::of(protocol) {
            return Err(StartError::Other {
                program: program(),
                version: hello.version,
                protocol: hello.protocol,
            });
        }
        Ok(link)
    }

    /// Returns whether the helper is still there.
    pub(crate) fn is_alive(&self) -> bool {
        self.process.state(Duration::ZERO) == State::Alive
    }

    /// Returns its PID.
    pub(crate) fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Sends a request, which is a whole frame.
    pub(crate) fn ask(&mut self, frame: &[u8], until: Instant) -> Result<(), PipeError> {
        pipe::write_all(&self.input, frame, until)
    }

    /// Answers a helper that asked for the memory of a process.
    pub(crate) fn hand(&self, memory: Option<&File>, until: Instant) -> Result<(), PipeError> {
        passing::hand(self.input.as_fd(), memory, until)
    }

    /// Returns the payload of the next answer.
    pub(crate) fn answer(&mut self, until: Instant) -> Result<Vec<u8>, PipeError> {
        self.output.next(until)
    }

    /// Lets it end by itself: closes its input.
    pub(crate) fn close(self) -> OwnProcess {
        self.process
    }

    /// Kills it. Returns how it ended, and itself if it would not die.
    pub(crate) fn kill(self) -> (State, Option<OwnProcess>) {
        let ended = self.process.state(Duration::from_millis(20));
        if ended != State::Alive {
            return (ended, None);
        }
        self.process.kill();
        match self.process.state(DYING) {
            State::Alive => (State::Alive, Some(self.process)),
            _ => (State::Killed(9), None),
        }
    }
}
