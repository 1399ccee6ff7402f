//! A thread of a fake process and the files of its `/proc/PID/task/TID` folder.

use std::collections::BTreeMap;
use std::path::Path;

use crate::kernel_text::{StatLine, joined, write};

/// One thread: sleeping, without CPU time, waiting in nothing the kernel names.
#[derive(Clone, Debug)]
#[must_use]
pub struct FakeThread {
    pub(crate) comm: Option<String>,
    pub(crate) files: BTreeMap<String, Option<String>>,
    pub(crate) kernel_stack: Vec<String>,
    pub(crate) state: char,
    pub(crate) syscall: String,
    pub(crate) system_ticks: u64,
    pub(crate) tid: i32,
    pub(crate) user_ticks: u64,
    pub(crate) wchan: String,
}

impl FakeThread {
    pub(crate) fn new(tid: i32) -> FakeThread {
        FakeThread {
            comm: None,
            files: BTreeMap::new(),
            kernel_stack: Vec::new(),
            state: 'S',
            syscall: "running".to_owned(),
            system_ticks: 0,
            tid,
            user_ticks: 0,
            wchan: "0".to_owned(),
        }
    }

    /// Names the thread; the process's name otherwise.
    pub fn comm(mut self, comm: &str) -> FakeThread {
        self.comm = Some(comm.to_owned());
        self
    }

    /// CPU time in user mode and in the kernel, clock ticks.
    pub fn cpu_ticks(mut self, user: u64, system: u64) -> FakeThread {
        self.user_ticks = user;
        self.system_ticks = system;
        self
    }

    /// Writes `text` to a file of its folder, over what would stand there.
    pub fn file(mut self, name: &str, text: &str) -> FakeThread {
        self.files.insert(name.to_owned(), Some(text.to_owned()));
        self
    }

    /// The kernel functions it is in, innermost first.
    pub fn kernel_stack<const N: usize>(mut self, functions: [&str; N]) -> FakeThread {
        self.kernel_stack = functions.map(str::to_owned).to_vec();
        self
    }

    /// Its state letter.
    pub fn state(mut self, state: char) -> FakeThread {
        self.state = state;
        self
    }

    /// The text of its `syscall` file, without the newline.
    pub fn syscall(mut self, text: &str) -> FakeThread {
        text.clone_into(&mut self.syscall);
        self
    }

    /// The kernel function it waits in.
    pub fn wchan(mut self, function: &str) -> FakeThread {
        function.clone_into(&mut self.wchan);
        self
    }

    /// Leaves a file of its folder out.
    pub fn without(mut self, name: &str) -> FakeThread {
        self.files.insert(name.to_owned(), None);
        self
    }

    /// The files that a thread has in `task/TID` and, for the main thread, in `/proc/PID` as well.
    pub(crate) fn write(&self, directory: &Path, stat: &StatLine, status: &str) {
        write(directory, "comm", &format!("{}\n", stat.comm));
        write(directory, "stat", &stat.render());
        write(directory, "status", status);
        write(directory, "wchan", &self.wchan);
        write(directory, "syscall", &format!("{}\n", self.syscall));
        let frames = self
            .kernel_stack
            .iter()
            .map(|function| format!("[<0>] {function}+0x10/0x20\n"));
        write(directory, "stack", &joined(frames));
        let nanoseconds = (self.user_ticks + self.system_ticks) * 10_000_000;
        write(directory, "schedstat", &format!("{nanoseconds} 0 1\n"));
    }

    pub(crate) fn write_replacements(&self, directory: &Path) {
        replace(directory, &self.files);
    }
}

/// Writes the files that a test gave itself and removes those it does not want.
pub(crate) fn replace(directory: &Path, files: &BTreeMap<String, Option<String>>) {
    for (name, text) in files {
        match text {
            Some(text) => write(directory, name, text),
            None => std::fs::remove_file(directory.join(name)).expect("a file that would be there"),
        }
    }
}
