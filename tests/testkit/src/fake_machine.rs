//! A machine that exists only as files: a proc root and a cgroup root in a temporary folder.
//! What a folder cannot say (ESRCH, EACCES for root) is to be tested at the error classifier instead.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::fake_process::FakeProcess;
use crate::kernel_text::{MACHINE, write};

/// Two CPUs, 16 GiB, cgroup version 2, and the processes that a test gives it.
///
/// ```
/// # use taskscope_testkit as testkit;
/// let machine = testkit::FakeMachine::new()
///     .process(100, |p| p.cmdline(["python", "train.py"]).environment([("RANK", "0")]))
///     .process(101, |p| p.ppid(100).state('D').wchan("folio_wait_bit"));
/// assert!(machine.proc_root().join("101/stat").exists());
/// ```
#[derive(Debug)]
pub struct FakeMachine {
    processes: BTreeMap<i32, FakeProcess>,
    root: TempDir,
}

impl FakeMachine {
    /// A healthy machine without processes.
    #[expect(
        clippy::new_without_default,
        reason = "it writes files, which a default should not"
    )]
    pub fn new() -> FakeMachine {
        let root = tempfile::Builder::new()
            .prefix("fake-machine-")
            .tempdir()
            .expect("a temporary folder can be made");
        let machine = FakeMachine {
            processes: BTreeMap::new(),
            root,
        };
        for (name, text) in MACHINE {
            write(&machine.proc_root(), name, text);
        }
        machine
            .cgroup_file("cgroup.controllers", "cpuset cpu io memory pids\n")
            .cgroup_file("cgroup.procs", "")
            .cgroup_file(
                "cpu.stat",
                "usage_usec 1000\nuser_usec 600\nsystem_usec 400\n",
            )
    }

    /// Stands for `/proc`.
    pub fn proc_root(&self) -> PathBuf {
        self.root.path().join("proc")
    }

    /// Stands for `/sys/fs/cgroup`.
    pub fn cgroup_root(&self) -> PathBuf {
        self.root.path().join("cgroup")
    }

    /// The folder that holds both, and whatever else a test puts there.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Writes a file below the cgroup root, such as `task/memory.max`.
    #[must_use]
    pub fn cgroup_file(self, name: &str, text: &str) -> FakeMachine {
        write(&self.cgroup_root(), name, text);
        self
    }

    /// Writes a file below the proc root, such as `loadavg`.
    #[must_use]
    pub fn file(self, name: &str, text: &str) -> FakeMachine {
        write(&self.proc_root(), name, text);
        self
    }

    /// Adds a process.
    #[must_use]
    pub fn process(
        mut self,
        pid: i32,
        describe: impl FnOnce(FakeProcess) -> FakeProcess,
    ) -> FakeMachine {
        self.start(pid, describe);
        self
    }

    /// Leaves a file of the proc root out.
    #[must_use]
    pub fn without(self, name: &str) -> FakeMachine {
        fs::remove_file(self.proc_root().join(name)).expect("a file that would be there");
        self
    }

    /// Starts a process between two looks; one that has this PID is replaced.
    pub fn start(&mut self, pid: i32, describe: impl FnOnce(FakeProcess) -> FakeProcess) {
        let process = describe(FakeProcess::new(pid));
        self.processes.insert(pid, process);
        self.write_processes();
    }

    /// Changes a process between two looks.
    pub fn change(&mut self, pid: i32, describe: impl FnOnce(FakeProcess) -> FakeProcess) {
        let process = self
            .processes
            .remove(&pid)
            .expect("a process of this machine");
        self.processes.insert(pid, describe(process));
        self.write_processes();
    }

    /// Ends a process between two looks; its children go to `reaper`.
    pub fn end(&mut self, pid: i32, reaper: i32) {
        fs::remove_dir_all(self.directory(pid)).expect("a process of this machine");
        self.processes.retain(|other, _| *other != pid);
        for process in self
            .processes
            .values_mut()
            .filter(|process| process.ppid == pid)
        {
            process.ppid = reaper;
        }
        self.write_processes();
    }

    fn write_processes(&self) {
        for (pid, process) in &self.processes {
            let children: Vec<i32> = self
                .processes
                .iter()
                .filter(|(_, child)| child.ppid == *pid)
                .map(|(pid, _)| *pid)
                .collect();
            let directory = self.directory(*pid);
            if directory.exists() {
                fs::remove_dir_all(&directory).expect("a temporary folder can be written");
            }
            process.write(&directory, &children);
        }
    }

    fn directory(&self, pid: i32) -> PathBuf {
        self.proc_root().join(pid.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(machine: &FakeMachine, name: &str) -> String {
        fs::read_to_string(machine.proc_root().join(name)).unwrap()
    }

    #[test]
    fn a_process_becomes_the_files_the_kernel_would_write() {
        let machine = FakeMachine::new().process(100, |p| {
            p.cmdline(["/usr/bin/python3", "train.py"])
                .state('D')
                .ppid(7)
                .start_time_ticks(5)
                .environment([("RANK", "0"), ("HOME", "/")])
                .fd(0, "pipe:[5]")
                .status_line("VmSwap", "8 kB")
                .thread(101, |t| t.comm("loader").state('R').wchan("futex_do_wait"))
        });

        let stat = read(&machine, "100/stat");
        let fields: Vec<&str> = stat.split_whitespace().collect();
        assert_eq!(fields.len(), 52);
        assert_eq!(
            (fields[1], fields[2], fields[3], fields[19], fields[21]),
            ("(python3)", "D", "7", "2", "5")
        );
        assert_eq!(
            read(&machine, "100/cmdline"),
            "/usr/bin/python3\0train.py\0"
        );
        assert_eq!(read(&machine, "100/environ"), "RANK=0\0HOME=/\0");
        assert!(read(&machine, "100/status").contains("VmSwap:\t8 kB\n"));
        assert!(read(&machine, "100/task/101/stat").starts_with("101 (loader) R 7 "));
        assert_eq!(read(&machine, "100/task/101/wchan"), "futex_do_wait");
        assert_eq!(
            fs::read_link(machine.proc_root().join("100/fd/0")).unwrap(),
            Path::new("pipe:[5]")
        );
    }

    #[test]
    fn parents_list_their_children_and_orphans_go_to_the_reaper() {
        let mut machine = FakeMachine::new()
            .process(9, |p| p)
            .process(10, |p| p.ppid(9))
            .process(11, |p| p.ppid(10));
        assert_eq!(read(&machine, "10/task/10/children"), "11 ");

        machine.end(10, 9);

        assert_eq!(read(&machine, "9/task/9/children"), "11 ");
        assert!(read(&machine, "11/status").contains("PPid:\t9\n"));
        assert!(!machine.proc_root().join("10").exists());
    }

    #[test]
    fn a_zombie_keeps_its_name_and_nothing_else() {
        let machine =
            FakeMachine::new().process(5, |p| p.cmdline(["sleep", "1"]).fd(0, "pipe:[1]").zombie());

        assert!(read(&machine, "5/stat").starts_with("5 (sleep) Z "));
        assert_eq!(read(&machine, "5/cmdline"), "");
        assert!(!read(&machine, "5/status").contains("VmRSS"));
        assert_eq!(
            fs::read_dir(machine.proc_root().join("5/fd"))
                .unwrap()
                .count(),
            0
        );
    }
}
