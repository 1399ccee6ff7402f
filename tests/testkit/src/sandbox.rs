//! A clean room for one program: an empty working directory, an environment with nothing but `PATH`, and a deadline.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::{DEADLINE, Output, Running, environment};

/// Runs one program, again and again, in one temporary directory.
#[derive(Debug)]
pub struct Sandbox {
    deadline: Duration,
    directory: TempDir,
    environment: BTreeMap<OsString, OsString>,
    program: PathBuf,
}

impl Sandbox {
    /// A sandbox for the program at this path.
    pub fn new(program: &Path) -> Sandbox {
        let directory = tempfile::Builder::new()
            .prefix("sandbox-")
            .tempdir()
            .expect("a temporary folder can be made");
        let path = (OsString::from("PATH"), environment::search_path());
        Sandbox {
            deadline: DEADLINE,
            directory,
            environment: BTreeMap::from([path]),
            program: program.to_owned(),
        }
    }

    /// Sets a variable for every later run.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Sandbox {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Gives every later run this long.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Sandbox {
        self.deadline = deadline;
        self
    }

    /// The working directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A path below the working directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    /// Writes a file below the working directory, with the folders above it.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file below a folder"))
            .expect("the sandbox can be written");
        fs::write(&path, text).expect("the sandbox can be written");
        path
    }

    /// Runs the program to its end. At the deadline its process group is killed and the test fails with the transcript.
    #[must_use = "either snapshot the output or assert how it ended"]
    #[track_caller]
    pub fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, arguments: I) -> Output {
        self.spawn(arguments).wait(self.deadline)
    }

    /// As `run`, with `input` on stdin.
    #[must_use = "either snapshot the output or assert how it ended"]
    #[track_caller]
    pub fn run_with_input<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(
        &self,
        arguments: I,
        input: &str,
    ) -> Output {
        let file = self.write(".stdin", input);
        let stdin = fs::File::open(&file).expect("the file was just written");
        fs::remove_file(&file).expect("the file was just written");
        Running::start(self.command(arguments).stdin(stdin)).wait(self.deadline)
    }

    /// Starts the program and lets it run; it is killed with its process group when the value is dropped.
    #[track_caller]
    pub fn spawn<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, arguments: I) -> Running {
        Running::start(self.command(arguments).stdin(Stdio::null()))
    }

    /// The bare command, for runs that need another stdin, a wrapper or a limit.
    pub fn command<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, arguments: I) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .current_dir(self.directory())
            .env_clear()
            .envs(&self.environment);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{process_exists, wait_until};

    fn shell() -> Sandbox {
        Sandbox::new(Path::new("/bin/sh"))
    }

    #[test]
    fn a_run_sees_an_empty_directory_and_only_path() {
        let output = shell()
            .environment("A", "1")
            .run(["-c", "ls -A; echo A=$A HOME=$HOME; echo oops >&2; exit 3"]);
        assert_eq!(
            output.to_string(),
            "exit 3\n--- stdout\nA=1 HOME=\n--- stderr\noops\n"
        );
        let _ = output.exited(3);
    }

    #[test]
    fn input_reaches_stdin() {
        assert_eq!(
            shell()
                .run_with_input(["-c", "cat"], "hello")
                .success()
                .stdout,
            "hello"
        );
    }

    #[test]
    fn a_dropped_program_takes_its_process_group_with_it() {
        let running = shell().spawn(["-c", "sleep 1000 & echo $! ready; wait"]);
        running.wait_for_stdout("ready");
        let (leader, member) = (
            running.pid(),
            running
                .stdout()
                .split_whitespace()
                .next()
                .unwrap()
                .parse()
                .unwrap(),
        );

        drop(running);

        assert!(!process_exists(leader));
        wait_until(DEADLINE, || {
            matches!(crate::process_state(member), None | Some('Z'))
        });
    }

    #[test]
    #[should_panic(expected = "still running after 50ms:\nbegun")]
    fn a_run_over_its_deadline_fails_with_what_it_said() {
        let sandbox = shell().deadline(Duration::from_millis(50));
        let running = sandbox.spawn(["-c", "echo begun; exec sleep 1000"]);
        running.wait_for_stdout("begun");
        let _ = running.wait(sandbox.deadline);
    }
}
