//! One process that we start ourselves and must be able to end within a bounded time.
//!
//! The program around this crate may reap every child with `waitpid(-1)`, so the standard library's `kill` and `wait`
//! are of no use here: a kill goes through a pidfd, which never names a stranger, and a child that somebody else has
//! reaped (ECHILD) counts as ended with an unknown status.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};

use crate::poll::wait_for_any;
use crate::register::Register;

/// How long a process may take to die of SIGKILL before it is left behind.
const DYING: Duration = Duration::from_millis(200);

/// How a process of ours stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not ended.
    Alive,
    /// It exited with this code.
    Exited(i32),
    /// It was killed by this signal.
    Killed(i32),
    /// It has ended, and somebody else took its status.
    Ended,
}

/// One process of ours, in a process group of its own so that Ctrl-C at a terminal does not reach it. Dropping it
/// kills it.
#[derive(Debug)]
pub struct OwnProcess {
    pid: Pid,
    /// Absent on kernels before 5.3.
    pidfd: Option<OwnedFd>,
    register: Register,
    /// Its last known state. Once it has ended, its PID may be another's and is not used again.
    known: Cell<State>,
}

impl OwnProcess {
    /// Starts `command`; the pipes that it asks for are in the returned `Child`, which is good for nothing else.
    pub fn start(command: &mut Command, register: &Register) -> io::Result<(Self, Child)> {
        // Held until the PID is in the register: discovery must never take our process for one of the task's.
        let mut held = register.hold();
        // No `pre_exec`: with it the standard library would wait for a child that could not exec.
        let child = command.process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        held.insert(pid.as_raw_pid());
        drop(held);
        let process = Self {
            pid,
            pidfd: pidfd_open(pid, PidfdFlags::empty()).ok(),
            register: register.clone(),
            known: Cell::new(State::Alive),
        };
        Ok((process, child))
    }

    /// Returns its PID.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_pid()
    }

    /// A descriptor that becomes readable when the process ends.
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// Kills it and what it started in its group, without waiting.
    pub fn kill(&self) {
        if self.state(Duration::ZERO) != State::Alive {
            return;
        }
        // While it lives, its PID is the name of its group and of no other.
        let _ = kill_process_group(self.pid, Signal::KILL);
        let _ = match &self.pidfd {
            Some(pidfd) => pidfd_send_signal(pidfd, Signal::KILL),
            None => kill_process(self.pid, Signal::KILL),
        };
    }

    /// Returns how it stands, after waiting at most `patience` for its end; reaps it if nobody else did.
    pub fn state(&self, patience: Duration) -> State {
        if self.known.get() != State::Alive {
            return self.known.get();
        }
        let until = Instant::now() + patience;
        if let Some(pidfd) = &self.pidfd {
            let _ = wait_for_any(&mut [PollFd::new(pidfd, PollFlags::IN)], until);
        }
        loop {
            let state = self.status();
            if state != State::Alive {
                self.known.set(state);
                self.register.hold().remove(self.pid.as_raw_pid());
            }
            if state != State::Alive || self.pidfd.is_some() || Instant::now() >= until {
                return state;
            }
            std::thread::sleep(Duration::from_millis(5)); // only on kernels without pidfd
        }
    }

    fn status(&self) -> State {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let waited = match &self.pidfd {
            Some(pidfd) => waitid(WaitId::PidFd(pidfd.as_fd()), options),
            None => Err(Errno::INVAL),
        };
        let waited = match waited {
            // P_PIDFD came one release after pidfd_open.
            Err(Errno::INVAL) => waitid(WaitId::Pid(self.pid), options),
            other => other,
        };
        match waited {
            Ok(None) => State::Alive,
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => State::Exited(code),
                (None, Some(signal)) => State::Killed(signal),
                (None, None) => State::Ended,
            },
            Err(_) => State::Ended,
        }
    }
}

/// Kills all `processes` and waits once for all of them; what does not die is left behind.
pub fn end_all(processes: Vec<OwnProcess>) {
    for process in &processes {
        process.kill();
    }
    let until = Instant::now() + DYING;
    for process in processes {
        if process.state(until.saturating_duration_since(Instant::now())) == State::Alive {
            // Its drop is not to wait again.
            process.known.set(State::Ended);
        }
    }
}

impl Drop for OwnProcess {
    fn drop(&mut self) {
        self.kill();
        self.state(DYING);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(program: &str, argument: &str) -> (OwnProcess, Register) {
        let register = Register::default();
        let (process, _) =
            OwnProcess::start(Command::new(program).arg(argument), &register).unwrap();
        (process, register)
    }

    #[test]
    fn a_process_is_registered_until_it_has_ended() {
        let (process, register) = start("/bin/sleep", "100");
        assert_eq!(register.pids(), [process.pid.as_raw_pid()]);
        assert_eq!(process.state(Duration::ZERO), State::Alive);
        process.kill();
        assert_eq!(process.state(Duration::from_secs(10)), State::Killed(9));
        assert_eq!(
            process.state(Duration::ZERO),
            State::Killed(9),
            "it is remembered"
        );
        assert_eq!(register.pids(), [0; 0]);
    }

    #[test]
    fn a_child_that_somebody_else_reaped_has_ended() {
        let (process, register) = start("/bin/true", "");
        waitid(WaitId::Pid(process.pid), WaitIdOptions::EXITED).unwrap();
        assert_eq!(process.state(Duration::from_secs(10)), State::Ended);
        assert_eq!(register.pids(), [0; 0]);
    }

    #[test]
    fn dropping_a_process_ends_it() {
        let (process, register) = start("/bin/sleep", "100");
        drop(process);
        assert_eq!(register.pids(), [0; 0]);
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error_and_no_process() {
        let register = Register::default();
        let error = OwnProcess::start(&mut Command::new("/nowhere/at/all"), &register).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(register.pids(), [0; 0]);
    }
}
