//! Starting the task: signals are blocked first, then it is spawned, and only then may threads begin.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signalfd::SignalFd;
use rustix::process::{getpid, setpgid};

use crate::inherited::Inherited;
use crate::recipients::our_group;
use crate::terminal::Terminal;
use crate::{Recipients, crash, kernel, signals};

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskCommand {
    /// A path, or a name that is looked up in `PATH`.
    pub program: OsString,
    /// What follows it.
    pub arguments: Vec<OsString>,
    /// Variables that it has beside ours.
    pub environment: Vec<(OsString, OsString)>,
}

/// How to stand by a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Who gets the signals that come to us.
    pub recipients: Recipients,
    /// How long after a SIGTERM whoever got it is killed; never where there is none.
    pub stop_grace: Option<Duration>,
    /// The command line on which our program calls [`crate::stand_in()`], should we crash: two words are added, the PID of the
    /// task and the number of the signal. Where there is none, a crash leaves the task alone.
    pub stand_in: Vec<OsString>,
}

/// Why the task could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// There is no such program, or its interpreter is missing.
    #[error("cannot run `{}`: {reason}", program.display())]
    NotFound {
        /// The program of the command.
        program: OsString,
        /// The kernel's words, or ours.
        reason: String,
    },
    /// It is there but cannot be executed: no permission, a directory, a wrong format.
    #[error("cannot run `{}`: {reason}", program.display())]
    NotExecutable {
        /// The program of the command.
        program: OsString,
        /// The kernel's words, or ours.
        reason: String,
    },
    /// No process could be made, or its arguments are too long.
    #[error("cannot start `{}`: {reason}", program.display())]
    Failed {
        /// The program of the command.
        program: OsString,
        /// The kernel's words.
        reason: String,
    },
}

impl TaskCommand {
    pub(crate) fn process(&self) -> Command {
        let variables = self.environment.iter().map(|(name, value)| (name, value));
        let mut process = Command::new(&self.program);
        process.args(&self.arguments).envs(variables);
        process
    }
}

impl StartError {
    /// What a shell would exit with: 127 where nothing was found, else 126.
    pub fn exit_code(&self) -> u8 {
        match self {
            StartError::NotFound { .. } => 127,
            StartError::NotExecutable { .. } | StartError::Failed { .. } => 126,
        }
    }
}

/// A started task. It is to be watched at once: until then nobody forwards signals to it.
#[derive(Debug)]
#[must_use = "signals are blocked and wait until the task is watched"]
pub struct Started {
    /// The PID of the task's main process.
    pub pid: i32,
    pub(crate) recipients: Recipients,
    pub(crate) relay: Option<OwnedFd>,
    pub(crate) signals: SignalFd,
    pub(crate) stop_grace: Option<Duration>,
    pub(crate) terminal: Option<Terminal>,
}

/// Starts the task with the standard streams, the signal mask and the ignored signals that we were started with, and makes us
/// the reaper of its orphans. It is in our process group, unless its group is to get the signals: then it leads one of its own.
///
/// Must be called before any other thread exists: the signals are blocked in the calling thread, and later threads and
/// processes inherit that. So a process that we start for ourselves ignores SIGTERM and is to be ended by SIGKILL, and
/// every child of ours is reaped by the watching thread.
pub fn start(command: &TaskCommand, manner: Manner) -> Result<Started, StartError> {
    let failed = |errno: Errno| StartError::Failed {
        program: command.program.clone(),
        reason: errno.desc().to_owned(),
    };
    let inherited = Inherited::take_over(&signals::forwarded()).map_err(failed)?;
    let signals = signals::source(&signals::forwarded()).map_err(failed)?;
    if let Err(error) = prctl::set_child_subreaper(true) {
        tracing::warn!(%error, "Orphans of the task will go to init and be lost from sight.");
    }
    let has_group = manner.recipients == Recipients::Group;
    let terminal = has_group.then(Terminal::of_session).flatten();
    let pid = spawn(command.process(), inherited, has_group, terminal.as_ref())
        .map_err(|error| start_error(&command.program, &error))?;
    let relay = crash::prepare(manner.stand_in, pid);
    Ok(Started {
        pid,
        recipients: manner.recipients,
        relay,
        signals,
        stop_grace: manner.stop_grace,
        terminal,
    })
}

fn spawn(
    mut command: Command,
    inherited: Inherited,
    has_group: bool,
    terminal: Option<&Terminal>,
) -> io::Result<i32> {
    if has_group {
        let terminal = terminal.map(Terminal::try_clone).transpose()?;
        kernel::before_exec(&mut command, move || {
            // While our group is the parent's.
            if let Some(terminal) = &terminal {
                terminal.pass(our_group(), getpid().as_raw_pid());
            }
            setpgid(None, None)?;
            inherited.give_back()
        });
    } else {
        kernel::before_exec(&mut command, move || inherited.give_back());
    }
    let child = command.spawn()?;
    // Dropping the handle neither ends nor waits for the child; from here on only the watching thread waits.
    Ok(i32::try_from(child.id()).expect("a PID fits"))
}

pub(crate) fn start_error(program: &OsString, error: &io::Error) -> StartError {
    let program = program.clone();
    let Some(number) = error.raw_os_error() else {
        // std's own refusal, such as a NUL byte in an argument.
        return StartError::Failed {
            program,
            reason: error.to_string(),
        };
    };
    let reason = Errno::from_raw(number).desc().to_owned();
    match Errno::from_raw(number) {
        // execve says ENOENT of a script whose `#!` line names nothing, too.
        Errno::ENOENT if names_a_file(&program) => {
            let reason = "its interpreter does not exist".to_owned();
            StartError::NotFound { program, reason }
        }
        Errno::ENOENT => StartError::NotFound { program, reason },
        Errno::EAGAIN | Errno::ENOMEM | Errno::E2BIG => StartError::Failed { program, reason },
        _ => StartError::NotExecutable { program, reason },
    }
}

fn names_a_file(program: &OsString) -> bool {
    let is_path = program.as_encoded_bytes().contains(&b'/');
    is_path && Path::new(program).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_for(program: &str, number: i32) -> StartError {
        start_error(&program.into(), &io::Error::from_raw_os_error(number))
    }

    #[test]
    fn a_missing_program_is_127_in_the_kernels_words() {
        let error = error_for("no-such", 2);
        assert_eq!(error.exit_code(), 127);
        assert_eq!(
            error.to_string(),
            "cannot run `no-such`: No such file or directory"
        );
    }

    #[test]
    fn what_is_there_but_cannot_run_is_126() {
        for errno in [
            Errno::EACCES,
            Errno::ENOEXEC,
            Errno::EISDIR,
            Errno::ENOTDIR,
            Errno::ETXTBSY,
        ] {
            let error = error_for("/etc", errno as i32);
            assert!(matches!(error, StartError::NotExecutable { .. }), "{errno}");
            assert_eq!(error.exit_code(), 126);
        }
    }

    #[test]
    fn a_file_that_exists_but_is_not_found_lacks_its_interpreter() {
        let error = error_for("/etc/passwd", Errno::ENOENT as i32);
        assert_eq!(
            error.to_string(),
            "cannot run `/etc/passwd`: its interpreter does not exist"
        );
        assert_eq!(error.exit_code(), 127);
    }

    #[test]
    fn a_full_process_table_is_a_failure_of_ours() {
        assert!(matches!(
            error_for("true", Errno::EAGAIN as i32),
            StartError::Failed { .. }
        ));
    }
}
