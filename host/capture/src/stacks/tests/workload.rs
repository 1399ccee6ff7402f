//! Python processes that stand in known places, with every interpreter that the machine has.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use model::{ProcessId, Trace};
use rustix::process::{Pid, Signal, kill_process};

use crate::stacks::image;

/// Runs on Python 2.7 and on every 3. Each thread stands in a function of its own until it is told to exec.
pub(super) const SCRIPT: &str = r#"
import os, sys, threading
gate = threading.Lock()
gate.acquire()
started = threading.Event()

def worker_waits():
    started.set()
    gate.acquire()  # worker

def main_waits():
    return sys.stdin.readline()  # main

worker = threading.Thread(target=worker_waits, name="the worker")
worker.daemon = True
worker.start()
started.wait()
sys.stdout.write("ready\n")
sys.stdout.flush()
program = main_waits().strip()
if program:
    os.execv(program, [program] + sys.argv)
"#;

/// A Python process in which every read of py-spy hangs: a library of it seems to be a pipe that nobody writes to.
pub(super) const HANGING_SCRIPT: &str = r#"
import mmap, os, sys
library = os.path.join(os.path.dirname(sys.argv[0]), "libpython3.11.so")
with open(library, "wb") as file:
    file.write(b"x" * 4096)
file = os.open(library, os.O_RDONLY)
mapped = mmap.mmap(file, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
os.unlink(library)
os.mkfifo(library + " (deleted)")
sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.readline()
"#;

/// A Python process that never stands still: it recurses, and threads come and go.
pub(super) const RESTLESS_SCRIPT: &str = r#"
import sys, threading
def dive(depth):
    return depth and dive(depth - 1)
def churn():
    while True:
        thread = threading.Thread(target=dive, args=(50,))
        thread.start()
        thread.join()
helper = threading.Thread(target=churn)
helper.daemon = True
helper.start()
sys.stdout.write("ready\n")
sys.stdout.flush()
while True:
    dive(50)
"#;

/// A Python process that is killed with its guard.
pub(super) struct Workload {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    pub(super) id: ProcessId,
    pub(super) script: PathBuf,
    _directory: tempfile::TempDir,
}

impl Workload {
    /// Starts `python` on `SCRIPT` and waits until its second thread runs.
    pub(super) fn start(python: &Path) -> Self {
        Self::start_script(python, SCRIPT)
    }

    /// Starts `python` on a script that says "ready".
    pub(super) fn start_script(python: &Path, text: &str) -> Self {
        Self::start_command(Command::new(python), text)
    }

    /// Starts what is to run a script that says "ready"; its path is added to the arguments.
    pub(super) fn start_command(mut command: Command, text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("train.py");
        std::fs::write(&script, text).unwrap();
        let mut child = command
            .arg(&script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let pid = i32::try_from(child.id()).unwrap();
        let start_time_ticks = image::stat(pid).unwrap().start_time_ticks;
        let mut workload = Self {
            child,
            output,
            id: ProcessId {
                pid,
                start_time_ticks,
            },
            script,
            _directory: directory,
        };
        workload.wait_until_ready();
        workload
    }

    pub(super) fn wait_until_ready(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }

    /// Lets it exec `program` on the same script.
    pub(super) fn exec(&mut self, program: &Path) {
        self.tell(&program.display().to_string());
    }

    /// Writes a line to its input and waits until it is ready again.
    pub(super) fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        self.wait_until_ready();
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.id.pid).unwrap(), signal).unwrap();
    }

    pub(super) fn state(&self) -> Option<char> {
        image::stat(self.id.pid).ok().map(|stat| stat.state)
    }

    /// Kills it, and leaves it as a zombie.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// The trace that has `function` innermost, if its file and line are the right ones.
    pub(super) fn find<'a>(&self, traces: &'a [Trace], function: &str) -> Option<&'a Trace> {
        let mark = function.strip_suffix("_waits").unwrap();
        let line = SCRIPT
            .lines()
            .position(|line| line.ends_with(&format!("# {mark}")))
            .unwrap();
        traces.iter().find(|trace| {
            trace.frames.first().is_some_and(|frame| {
                frame.name == function
                    && Path::new(&frame.filename) == self.script
                    && frame.short_filename.as_ref() == Some(&frame.filename)
                    && usize::try_from(frame.line) == Ok(line + 1)
            })
        })
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every interpreter of this machine: those in the directories of PATH and in `~/.pyenv/versions`.
#[expect(
    clippy::disallowed_methods,
    reason = "tests look for interpreters as a shell would"
)]
pub(super) fn pythons() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Some(home) = std::env::var_os("HOME") {
        let versions = Path::new(&home).join(".pyenv/versions");
        let versions = std::fs::read_dir(versions).into_iter().flatten().flatten();
        directories.extend(versions.map(|version| version.path().join("bin")));
    }
    let found: BTreeSet<PathBuf> = directories
        .iter()
        .filter(|directory| !directory.ends_with("shims")) // shell scripts of pyenv
        .flat_map(|directory| ["python3", "python2.7"].map(|name| directory.join(name)))
        .filter_map(|program| program.canonicalize().ok())
        .collect();
    assert!(!found.is_empty(), "these tests need a Python");
    found.into_iter().collect()
}

/// The version of an interpreter, as (3, 11).
pub(super) fn version(python: &Path) -> (u32, u32) {
    let program = "import sys; sys.stdout.write('%d %d' % sys.version_info[:2])";
    let output = Command::new(python).args(["-c", program]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (major, minor) = text.split_once(' ').unwrap();
    (major.parse().unwrap(), minor.parse().unwrap())
}
