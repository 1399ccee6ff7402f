//! A real Python script that runs while a test looks at it. Its whole session dies with the value.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::waiting::holds_within;
use crate::{Python, Running, environment, processes};

/// What a job is started with.
#[derive(Debug)]
#[must_use]
pub struct JobSettings {
    arguments: Vec<String>,
    deadline: Duration,
    environment: Vec<(String, String)>,
    files: Vec<(String, String)>,
    python: Python,
}

/// A running script that has said `ready`.
#[derive(Debug)]
pub struct PythonJob {
    // Dropped after `drop` has killed the session, so nobody writes into a folder that is being removed.
    running: Running,
    directory: TempDir,
}

impl PythonJob {
    /// Runs `script` under this interpreter as `train.py`; it must print a line `ready` once it is where the test wants it.
    #[expect(
        clippy::new_ret_no_self,
        reason = "a job is what the chain of settings ends in"
    )]
    pub fn new(python: &Python, script: &str) -> JobSettings {
        let script = ("train.py".to_owned(), script.to_owned());
        JobSettings {
            arguments: Vec::new(),
            deadline: crate::DEADLINE,
            environment: Vec::new(),
            files: vec![script],
            python: python.clone(),
        }
    }

    /// Its PID: the interpreter itself, which leads a session of its own.
    pub fn pid(&self) -> i32 {
        self.running.pid()
    }

    /// The folder of the script, which is its working directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The path of the script.
    pub fn script(&self) -> PathBuf {
        self.directory().join("train.py")
    }

    /// The running program: its output, its signals.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// The number that the script printed after `name`, as in `worker 123`.
    #[track_caller]
    pub fn printed(&self, name: &str) -> i32 {
        let stdout = self.running.stdout();
        let mut values = stdout
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        values
            .next_back()
            .unwrap_or_else(|| panic!("no line `{name} NUMBER` in:\n{stdout}"))
    }
}

impl JobSettings {
    /// Adds an argument after the script.
    pub fn argument(mut self, argument: &str) -> JobSettings {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Gives it this long to say `ready`.
    pub fn deadline(mut self, deadline: Duration) -> JobSettings {
        self.deadline = deadline;
        self
    }

    /// Sets a variable; the job has `PATH` and these.
    pub fn environment(mut self, name: &str, value: &str) -> JobSettings {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes another file beside the script.
    pub fn file(mut self, name: &str, text: &str) -> JobSettings {
        self.files.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Starts it and waits for its line `ready`. Panics with what it said at the deadline.
    #[track_caller]
    pub fn start(self) -> PythonJob {
        let directory = tempfile::Builder::new()
            .prefix("job-")
            .tempdir()
            .expect("a temporary folder can be made");
        for (name, text) in &self.files {
            fs::write(directory.path().join(name), text)
                .expect("a temporary folder can be written");
        }
        // setsid forks where it leads a process group, and then the interpreter would not be our child: so it must not.
        let mut command = Command::new("setsid");
        command
            .arg(&self.python.path)
            .arg("-u")
            .arg("train.py")
            .args(&self.arguments);
        command.current_dir(directory.path()).stdin(Stdio::null());
        command.env_clear().env("PATH", environment::search_path());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let job = PythonJob {
            running: Running::start_in_our_group(&mut command),
            directory,
        };
        job.wait_until_ready(self.deadline);
        job
    }
}

impl PythonJob {
    #[track_caller]
    fn wait_until_ready(&self, deadline: Duration) {
        let running = &self.running;
        let is_ready = || running.stdout().lines().any(|line| line == "ready");
        // A job that has ended may have said its last words a moment ago.
        let is_over = || running.has_ended() && running.is_complete();
        holds_within(deadline, || is_ready() || is_over());
        assert!(
            is_ready(),
            "the job never said ready:\n{}\n{}",
            running.stdout(),
            running.stderr()
        );
    }
}

impl Drop for PythonJob {
    fn drop(&mut self) {
        processes::kill_session(self.running.pid());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{process_exists, process_state, pythons, wait_until};

    #[test]
    fn a_job_runs_on_every_interpreter_and_leaves_nothing() {
        let script = "import os, sys, time, subprocess\n\
                      child = subprocess.Popen(['sleep', '1000'])\n\
                      print('worker %d' % child.pid)\n\
                      print('rank %s' % os.environ['RANK'])\n\
                      print('ready')\n\
                      time.sleep(1000)\n";
        for python in pythons() {
            let job = PythonJob::new(python, script)
                .environment("RANK", "3")
                .argument("--fast")
                .start();
            let (pid, worker, directory) =
                (job.pid(), job.printed("worker"), job.directory().to_owned());
            assert_eq!(job.printed("rank"), 3);
            let cmdline = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
            assert!(cmdline.ends_with("\0-u\0train.py\0--fast\0"), "{cmdline:?}");

            drop(job);

            assert!(!process_exists(pid));
            wait_until(crate::DEADLINE, || {
                matches!(process_state(worker), None | Some('Z'))
            });
            assert!(!directory.exists());
        }
    }

    #[test]
    #[should_panic(expected = "ZeroDivisionError")]
    fn a_job_that_fails_before_it_is_ready_fails_the_test_with_its_words() {
        PythonJob::new(crate::newest_python(), "1 / 0").start();
    }
}
