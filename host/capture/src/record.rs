//! Copies what a capture of a task reads into a directory that can be looked at like a machine: a bug report becomes a test.
//!
//! Values of variables are dropped, arguments are redacted, links stay links. Names of files, of processes and of cgroups
//! remain: whoever passes a recording on has to look through it. Only for a person's command, never within a cycle: it
//! reads in place what can block.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::discover::Targets;
use crate::error::CaptureError;
use crate::machine::Machine;
use crate::proc::{cmdline, environ};
use crate::redact::Redactor;

/// Of the machine, below the proc root.
const MACHINE: [&str; 9] = [
    "loadavg",
    "locks",
    "meminfo",
    "stat",
    "pressure/cpu",
    "pressure/io",
    "pressure/memory",
    "sys/kernel/osrelease",
    "sys/kernel/random/boot_id",
];

/// Of each process, and of each of its threads.
const PROCESS: [&str; 7] = [
    "cgroup",
    "io",
    "limits",
    "maps",
    "schedstat",
    "stat",
    "status",
];
const THREAD: [&str; 8] = [
    "children",
    "comm",
    "schedstat",
    "stack",
    "stat",
    "status",
    "syscall",
    "wchan",
];

/// Of a cgroup: the files whose names begin so.
const CGROUP: [&str; 6] = [
    "blkio.throttle.io",
    "cpu.",
    "cpuacct.usage",
    "io.",
    "memory.",
    "pids.",
];

/// What is longer is cut, bytes.
const LONGEST_FILE: usize = 1 << 20;

/// Records what a capture of `targets` would read of `machine` into `directory`: its roots are `proc` and `cgroup` there.
/// `redact` are patterns of secrets as those of [`crate::Options`]. What cannot be read is left out. Errors: `directory` cannot be written.
pub fn record(
    machine: &Machine,
    targets: &Targets,
    redact: &[Regex],
    directory: &Path,
) -> Result<(), CaptureError> {
    let recorder = Recorder {
        machine,
        proc: directory.join("proc"),
        redactor: Redactor::new(redact),
    };
    let recorded = recorder
        .machine()
        .and_then(|()| recorder.cgroups(&targets.root_cgroup, &directory.join("cgroup")))
        .and_then(|()| {
            let mut pids = targets.processes.iter().map(|id| id.pid);
            pids.try_for_each(|pid| recorder.process(pid))
        });
    recorded.map_err(|source| CaptureError::Unwritable {
        path: directory.to_owned(),
        source,
    })
}

struct Recorder<'a> {
    machine: &'a Machine,
    proc: PathBuf,
    redactor: Redactor<'a>,
}

impl Recorder<'_> {
    fn machine(&self) -> io::Result<()> {
        for name in MACHINE {
            copy(&self.machine.proc.join(name), &self.proc.join(name))?;
        }
        // Which file systems there are is nobody's business but those of cgroups.
        let Some(mounts) = read(&self.machine.proc.join("self/mountinfo")) else {
            return Ok(());
        };
        let mounts = String::from_utf8_lossy(&mounts).into_owned();
        let mounts = mounts.lines().filter(|line| line.contains(" - cgroup"));
        let text: String = mounts.flat_map(|line| [line, "\n"]).collect();
        write(&self.proc.join("self/mountinfo"), text.as_bytes())
    }

    fn process(&self, pid: i32) -> io::Result<()> {
        let from = self.machine.proc.join(pid.to_string());
        let to = self.proc.join(pid.to_string());
        for name in PROCESS {
            copy(&from.join(name), &to.join(name))?;
        }
        link(&from.join("exe"), &to.join("exe"))?;
        for name in names(&from.join("ns")) {
            link(&from.join("ns").join(&name), &to.join("ns").join(&name))?;
        }
        for name in names(&from.join("fd")) {
            link(&from.join("fd").join(&name), &to.join("fd").join(&name))?;
            copy(
                &from.join("fdinfo").join(&name),
                &to.join("fdinfo").join(&name),
            )?;
        }
        for task in names(&from.join("task")) {
            for name in THREAD {
                let file = Path::new("task").join(&task).join(name);
                copy(&from.join(&file), &to.join(&file))?;
            }
        }
        self.secrets(&from, &to)
    }

    /// The two files in which people have secrets.
    fn secrets(&self, from: &Path, to: &Path) -> io::Result<()> {
        if let Some(content) = read(&from.join("cmdline")) {
            let mut arguments = cmdline::arguments(&content);
            self.redactor.arguments(&mut arguments);
            let text: String = arguments
                .iter()
                .flat_map(|it| [it.as_str(), "\0"])
                .collect();
            write(&to.join("cmdline"), text.as_bytes())?;
        }
        if let Some(content) = read(&from.join("environ")) {
            let mut text = Vec::new();
            for (name, _) in environ::entries(&content) {
                text.extend_from_slice(name);
                text.extend_from_slice(b"=\0");
            }
            write(&to.join("environ"), &text)?;
        }
        Ok(())
    }

    /// The cgroups of the process whose lines these are, up to where their hierarchies are mounted.
    fn cgroups(&self, lines: &[String], to: &Path) -> io::Result<()> {
        let root = self.machine.cgroup_root();
        for hierarchy in self.machine.hierarchies() {
            let directory = hierarchy.directory(lines);
            let directory = directory.as_deref().unwrap_or(&hierarchy.mount_point);
            let visible = directory
                .ancestors()
                .take_while(|level| level.starts_with(&hierarchy.mount_point));
            for level in visible {
                let to = to.join(level.strip_prefix(root).unwrap_or(level));
                fs::create_dir_all(&to)?;
                for name in names(level) {
                    if CGROUP.iter().any(|start| name.starts_with(start)) {
                        copy(&level.join(&name), &to.join(&name))?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Nothing for what cannot be read, as what is only there to be written.
fn read(path: &Path) -> Option<Vec<u8>> {
    let is_file = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    let mut content = is_file.then(|| fs::read(path).ok())??;
    content.truncate(LONGEST_FILE);
    Some(content)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    read(from).map_or(Ok(()), |content| write(to, &content))
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(target) = fs::read_link(from) else {
        return Ok(());
    };
    make_parent(to)?;
    symlink(target, to)
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    make_parent(path)?;
    fs::write(path, content)
}

fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}
