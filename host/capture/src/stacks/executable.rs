//! Stacks from an external py-spy program: `py-spy dump --json` once a process and capture.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use helper::{OwnProcess, Register, State};
use model::{GapCode, ProcessId, StackSourceName, Stacks};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::Access;
use tracing::warn;

use super::complaint::{Complaint, remedy_of_py_spy};
use super::{Reading, Wanted, gap};
use crate::StackSettings;
use crate::helper::pipe::{self, PipeError};

/// The most output that is read, bytes.
const MOST_OUTPUT: usize = 64 << 20;

/// The most words of failure that are kept, bytes.
const MOST_WORDS: usize = 1 << 10;

/// The external reader.
#[derive(Debug)]
pub(super) struct External {
    program: Option<PathBuf>,
    path: Vec<PathBuf>,
    timeout: Duration,
    nonblocking: bool,
    max_parallel: usize,
    register: Register,
    warned: AtomicBool,
}

/// What a program said until it ended.
struct Said {
    output: Vec<u8>,
    words: String,
    state: State,
}

impl External {
    /// Looks for the program once it is needed: `program` where it exists, else beside the interpreter, else in `path`.
    pub(super) fn new(
        program: Option<PathBuf>,
        path: Vec<PathBuf>,
        settings: &StackSettings,
        register: Register,
    ) -> Self {
        let program = program.filter(|program| {
            let there = is_program(program);
            if !there {
                warn!(program = %program.display(), "This py-spy is no program; another one is looked for.");
            }
            there
        });
        Self {
            program,
            path,
            timeout: settings.timeout,
            nonblocking: settings.nonblocking,
            max_parallel: settings.max_parallel.max(1),
            register,
            warned: AtomicBool::new(false),
        }
    }

    /// Reads `wanted` until `deadline`.
    pub(super) fn read(&self, wanted: &[Wanted], deadline: Instant) -> HashMap<ProcessId, Reading> {
        let next = AtomicUsize::new(0);
        let readings = Mutex::new(HashMap::new());
        let work = || {
            while let Some(one) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                let reading = self.read_one(one, deadline);
                let mut readings = readings.lock().expect("no reader panics while it holds it");
                readings.insert(one.id, reading);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.max_parallel.min(wanted.len()) {
                scope.spawn(work);
            }
        });
        readings
            .into_inner()
            .expect("no reader panics while it holds it")
    }

    fn read_one(&self, wanted: &Wanted, deadline: Instant) -> Reading {
        let process = wanted.id;
        let refused = |code, detail: String| {
            let mut gap = gap(process, code).with_detail(detail);
            gap.remedy = remedy_of_py_spy(code);
            Reading::Gap(gap)
        };
        let Some(program) = self.find(wanted.exe.as_deref()) else {
            if !self.warned.swap(true, Ordering::Relaxed) {
                warn!("No py-spy was found; snapshots go on without Python stacks.");
            }
            return refused(GapCode::NoReader, "no py-spy was found".to_owned());
        };
        let began = Instant::now();
        let until = deadline.min(began + self.timeout);
        if began >= deadline {
            let detail = "not reached before the deadline".to_owned();
            return refused(GapCode::TimedOut, detail);
        }
        match self.dump(&program, process.pid, until) {
            Ok(said) => match judge(&said) {
                Ok(stacks) => Reading::Stacks(stacks, Vec::new()),
                Err((Complaint::NotPython, _)) => Reading::NotPython,
                Err((Complaint::Gap(code), detail)) => refused(code, detail),
            },
            Err(PipeError::TimedOut) => refused(
                GapCode::TimedOut,
                format!(
                    "py-spy was ended after {:.1} s",
                    began.elapsed().as_secs_f64()
                ),
            ),
            Err(error) => refused(GapCode::Failed, format!("{}: {error}", program.display())),
        }
    }

    /// Returns the py-spy to use for an interpreter.
    fn find(&self, exe: Option<&Path>) -> Option<PathBuf> {
        let beside = || {
            let program = exe?.parent()?.join("py-spy");
            is_trusted(&program).then_some(program)
        };
        let in_path = || {
            let programs = self.path.iter().map(|directory| directory.join("py-spy"));
            programs.into_iter().find(|program| is_program(program))
        };
        self.program.clone().or_else(beside).or_else(in_path)
    }

    fn dump(&self, program: &Path, pid: i32, until: Instant) -> Result<Said, PipeError> {
        let mut command = Command::new(program);
        command.args(["dump", "--json", "--full-filenames"]);
        if self.nonblocking {
            command.arg("--nonblocking");
        }
        command
            .args(["--pid", &pid.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (process, child) = OwnProcess::start(&mut command, &self.register)?;
        let (Some(output), Some(words)) = (child.stdout, child.stderr) else {
            unreachable!("both were asked for as pipes");
        };
        pipe::set_nonblocking(&output)?;
        pipe::set_nonblocking(&words)?;
        let mut said = Said {
            output: Vec::new(),
            words: String::new(),
            state: State::Alive,
        };
        let mut raw_words = Vec::new();
        loop {
            let ended = process.pidfd().is_some() && process.state(Duration::ZERO) != State::Alive;
            let output_ended = drain(&output, &mut said.output, MOST_OUTPUT)?;
            let words_ended = drain(&words, &mut raw_words, MOST_OUTPUT)?;
            if ended || output_ended && words_ended {
                break;
            }
            let mut ready = Vec::with_capacity(3);
            if !output_ended {
                ready.push(PollFd::new(&output, PollFlags::IN));
            }
            if !words_ended {
                ready.push(PollFd::new(&words, PollFlags::IN));
            }
            if let Some(pidfd) = process.pidfd() {
                ready.push(PollFd::from_borrowed_fd(pidfd, PollFlags::IN));
            }
            pipe::wait_for_any(&mut ready, until)?;
        }
        said.state = process.state(until.saturating_duration_since(Instant::now()));
        said.words = shorten(&raw_words);
        Ok(said)
    }
}

/// Judges by the exit code, where nobody else took it, and by the output.
fn judge(said: &Said) -> Result<Stacks, (Complaint, String)> {
    if let State::Exited(1..) | State::Killed(_) = said.state {
        let detail = match (said.words.as_str(), said.state) {
            ("", State::Killed(signal)) => format!("py-spy was killed by signal {signal}"),
            ("", State::Exited(code)) => format!("py-spy ended with exit code {code}"),
            (words, _) => words.to_owned(),
        };
        return Err((Complaint::of(&said.words), detail));
    }
    match serde_json::from_slice(&said.output) {
        Ok(traces) => Ok(Stacks {
            source: StackSourceName::Executable,
            traces,
            unchanged_since: None,
            version: None,
        }),
        Err(_) if said.state == State::Ended && !said.words.is_empty() => {
            Err((Complaint::of(&said.words), said.words.clone()))
        }
        Err(error) => Err((
            Complaint::Gap(GapCode::Malformed),
            format!("py-spy's output is no JSON of stacks: {error}"),
        )),
    }
}

/// Moves all that is there into `buffer`. Returns whether the pipe has ended. Errors: more than `most` bytes.
fn drain(
    pipe: impl std::os::fd::AsFd,
    buffer: &mut Vec<u8>,
    most: usize,
) -> Result<bool, PipeError> {
    while let Some(count) = pipe::read_chunk(pipe.as_fd(), buffer)? {
        if count == 0 {
            return Ok(true);
        }
        if buffer.len() > most {
            let error = std::io::Error::other(format!("it wrote more than {most} bytes"));
            return Err(error.into());
        }
    }
    Ok(false)
}

/// Returns words of failure as one line, the end of them if they are many.
fn shorten(words: &[u8]) -> String {
    let text = String::from_utf8_lossy(&words[words.len().saturating_sub(MOST_WORDS)..]);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("; ")
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// Whether a program that lies where a task's files lie may be run with our rights.
fn is_trusted(path: &Path) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    is_program(path)
        && path.metadata().is_ok_and(|metadata| {
            let owner = metadata.uid();
            (owner == 0 || owner == ours) && metadata.mode() & 0o002 == 0
        })
}
