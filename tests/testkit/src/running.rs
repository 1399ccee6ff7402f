//! A program of a test while it runs: read along, signal, wait. Its process group dies with the value.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::Output;
use crate::waiting::holds_within;

/// A started program, alone in a process group of its own.
#[derive(Debug)]
pub struct Running {
    child: Child,
    is_reaped: bool,
    stderr: Collected,
    stdout: Collected,
}

impl Running {
    /// Starts `command` with its output collected; stdin is as the command says, else empty.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Running {
        Running::start_in_our_group(command.process_group(0))
    }

    /// As `start`, for a program that makes its own process group.
    #[track_caller]
    pub(crate) fn start_in_our_group(command: &mut Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdout = Collected::from(child.stdout.take().expect("stdout is a pipe"));
        let stderr = Collected::from(child.stderr.take().expect("stderr is a pipe"));
        Running {
            child,
            is_reaped: false,
            stderr,
            stdout,
        }
    }

    /// Its PID, which is that of its process group too.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a PID fits")
    }

    /// What it has written to stdout so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// What it has written to stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Sends a signal to it alone.
    #[track_caller]
    pub fn signal(&self, signal: i32) {
        crate::send_signal(self.pid(), signal);
    }

    /// Returns as soon as stdout holds `text`; panics with the transcript at the deadline.
    #[track_caller]
    pub fn wait_for_stdout(&self, text: &str) {
        let found = holds_within(crate::DEADLINE, || self.stdout().contains(text));
        assert!(
            found,
            "stdout never held {text:?}:\n{}\n{}",
            self.stdout(),
            self.stderr()
        );
    }

    /// Returns as soon as stderr holds `text`; panics with the transcript at the deadline.
    #[track_caller]
    pub fn wait_for_stderr(&self, text: &str) {
        let found = holds_within(crate::DEADLINE, || self.stderr().contains(text));
        assert!(
            found,
            "stderr never held {text:?}:\n{}\n{}",
            self.stdout(),
            self.stderr()
        );
    }

    /// Whether it has ended. It stays a zombie, so its PID and the number of its group cannot mean somebody else.
    pub fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.id()), options)
            .expect("our own child can be waited for")
            .is_some()
    }

    /// Waits until it has ended and nobody holds its output any more. Panics with the transcript at the deadline.
    #[must_use = "either snapshot the output or assert how it ended"]
    #[track_caller]
    pub fn wait(mut self, deadline: Duration) -> Output {
        let ended = holds_within(deadline, || self.has_ended());
        assert!(
            ended,
            "still running after {deadline:?}:\n{}\n{}",
            self.stdout(),
            self.stderr()
        );
        let closed = holds_within(deadline, || self.is_complete());
        assert!(
            closed,
            "it ended, but its output is still held open:\n{}\n{}",
            self.stdout(),
            self.stderr()
        );
        self.kill_group();
        self.is_reaped = true;
        let status = self.child.wait().expect("our own child can be waited for");
        Output {
            status,
            stdout: self.stdout(),
            stderr: self.stderr(),
        }
    }

    /// Whether nobody can write to stdout and stderr any more.
    pub(crate) fn is_complete(&self) -> bool {
        self.stdout.is_complete() && self.stderr.is_complete()
    }

    fn id(&self) -> Pid {
        Pid::from_raw(self.pid()).expect("a PID is not 0")
    }

    fn kill_group(&self) {
        // Nobody but the zombie of the leader is left as a rule, and a program may have changed its group.
        let _ = kill_process_group(self.id(), Signal::KILL);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After `wait` its numbers may be somebody else's.
        if !self.is_reaped {
            self.kill_group();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// What came out of a pipe so far, read on a thread of its own.
#[derive(Clone, Debug)]
struct Collected(Arc<Mutex<(Vec<u8>, Reading)>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Open,
    Complete,
}

impl Collected {
    fn from(mut pipe: impl Read + Send + 'static) -> Collected {
        let collected = Collected(Arc::new(Mutex::new((Vec::new(), Reading::Open))));
        let shared = collected.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                shared
                    .0
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
                    .extend_from_slice(&buffer[..count]);
            }
            shared.0.lock().unwrap_or_else(PoisonError::into_inner).1 = Reading::Complete;
        });
        collected
    }

    fn text(&self) -> String {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&state.0).into_owned()
    }

    fn is_complete(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1 == Reading::Complete
    }
}
