//! Copies what a capture of a task reads into a directory that can be looked at like a machine: a bug report becomes a test.
//!
//! Values of variables are dropped, arguments are redacted, links stay links. Names of files, of processes and of cgroups
//! remain: whoever passes a recording on has to look through it. Of sockets, mounts and cgroups only what is the task's is
//! kept. What is no file is not in it: a look at a recording asks the machine where it is looked at how full file systems are.
//! Only for a person's command, never within a cycle: it reads in place what can block.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::discover::Targets;
use crate::error::CaptureError;
use crate::machine::Machine;
use crate::proc::{cmdline, environ, text};
use crate::redact::Redactor;

/// Of the machine, below the proc root.
const MACHINE: [&str; 12] = [
    "loadavg",
    "locks",
    "meminfo",
    "stat",
    "pressure/cpu",
    "pressure/io",
    "pressure/memory",
    "sys/kernel/osrelease",
    "sys/kernel/random/boot_id",
    "sysvipc/msg",
    "sysvipc/sem",
    "sysvipc/shm",
];

/// Of each process, and of each of its threads.
const PROCESS: [&str; 8] = [
    "cgroup",
    "io",
    "limits",
    "maps",
    "schedstat",
    "smaps_rollup",
    "stat",
    "status",
];
const LINKS: [&str; 3] = ["cwd", "exe", "root"];
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

/// Of the sockets of a process, in its network namespace.
const NET: [&str; 9] = [
    "netlink", "packet", "raw", "raw6", "tcp", "tcp6", "udp", "udp6", "unix",
];

/// Of a cgroup: the files whose names begin so. `cgroup.type` and `release_agent` tell the root of a machine from that of
/// a container.
const CGROUP: [&str; 9] = [
    "blkio.throttle.io",
    "cgroup.controllers",
    "cgroup.type",
    "cpu.",
    "cpuacct.usage",
    "io.",
    "memory.",
    "pids.",
    "release_agent",
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
        .and_then(|()| recorder.cgroups(targets, &directory.join("cgroup")))
        .and_then(|()| recorder.mounts(&targets.scope.root.pid.to_string(), ""))
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
        // Which file systems we see ourselves is nobody's business but those of cgroups.
        self.mounts("self", " - cgroup")
    }

    /// The lines of the `mountinfo` of `process` that have `mark` in them. Of the options of a file system only its first
    /// one stays, `rw` or `ro`: others may be names of users and paths.
    fn mounts(&self, process: &str, mark: &str) -> io::Result<()> {
        let name = Path::new(process).join("mountinfo");
        let Some(content) = read(&self.machine.proc.join(&name)) else {
            return Ok(());
        };
        let content = String::from_utf8_lossy(&content).into_owned();
        let wanted = content.lines().filter(|line| line.contains(mark));
        let text: String = wanted.filter_map(|line| self.mount(line)).collect();
        write(&self.proc.join(name), text.as_bytes())
    }

    fn mount(&self, line: &str) -> Option<String> {
        let (place, file_system) = line.split_once(" - ")?;
        let mut words = file_system.splitn(3, ' ');
        let (kind, source, options) = (words.next()?, words.next()?, words.next()?);
        // Those of a hierarchy are its controllers.
        let is_hierarchy = kind.starts_with("cgroup");
        let kept = if is_hierarchy {
            options
        } else {
            options.split(',').next()?
        };
        // It may be a URL with a password.
        let mut source = [source.to_owned()];
        self.redactor.arguments(&mut source);
        Some(format!("{place} - {kind} {} {kept}\n", source[0]))
    }

    fn process(&self, pid: i32) -> io::Result<()> {
        let from = self.machine.proc.join(pid.to_string());
        let to = self.proc.join(pid.to_string());
        for name in PROCESS {
            copy(&from.join(name), &to.join(name))?;
        }
        for name in LINKS {
            link(&from.join(name), &to.join(name))?;
        }
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
        sockets(&from, &to)?;
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

    /// The cgroups of the task, up to where their hierarchies are mounted.
    fn cgroups(&self, targets: &Targets, to: &Path) -> io::Result<()> {
        let root = self.machine.cgroup_root();
        for level in self.levels(targets) {
            let to = to.join(level.strip_prefix(root).unwrap_or(&level));
            fs::create_dir_all(&to)?;
            for name in names(&level) {
                if CGROUP.iter().any(|start| name.starts_with(start)) {
                    copy(&level.join(&name), &to.join(&name))?;
                }
            }
            members(targets, &level, &to)?;
        }
        Ok(())
    }

    fn levels(&self, targets: &Targets) -> BTreeSet<PathBuf> {
        let files = targets.processes.iter().filter_map(|id| {
            let directory = self.machine.proc.join(id.pid.to_string());
            Some(text::lines(&read(&directory.join("cgroup"))?))
        });
        let mut levels = BTreeSet::new();
        for lines in files.chain([targets.root_cgroup.clone()]) {
            for hierarchy in self.machine.hierarchies() {
                let directory = hierarchy.directory(&lines);
                let directory = directory.as_deref().unwrap_or(&hierarchy.mount_point);
                let visible = directory
                    .ancestors()
                    .take_while(|level| level.starts_with(&hierarchy.mount_point));
                levels.extend(visible.map(Path::to_owned));
            }
        }
        levels
    }
}

/// Who of the task is in the cgroup; that there is a list says something as well.
fn members(targets: &Targets, level: &Path, to: &Path) -> io::Result<()> {
    let Some(content) = read(&level.join("cgroup.procs")) else {
        return Ok(());
    };
    let listed = String::from_utf8_lossy(&content).into_owned();
    let is_ours = |line: &&str| {
        let pid = line.parse();
        pid.is_ok_and(|pid: i32| targets.processes.iter().any(|id| id.pid == pid))
    };
    let ours = listed.lines().filter(is_ours);
    let text: String = ours.flat_map(|line| [line, "\n"]).collect();
    write(&to.join("cgroup.procs"), text.as_bytes())
}

/// The lines about its own sockets in the lists of its network namespace: those that have the inode of one in them.
fn sockets(from: &Path, to: &Path) -> io::Result<()> {
    let links = names(&from.join("fd")).into_iter();
    let links = links.filter_map(|name| fs::read_link(from.join("fd").join(name)).ok());
    let inodes: BTreeSet<String> = links
        .filter_map(|target| {
            let number = target.to_str()?.strip_prefix("socket:[")?;
            Some(number.strip_suffix(']')?.to_owned())
        })
        .collect();
    for name in NET {
        let name = Path::new("net").join(name);
        let content = fs::read(from.join(&name)).unwrap_or_default();
        let content = String::from_utf8_lossy(&content).into_owned();
        let has_one = |line: &str| {
            line.split_ascii_whitespace()
                .any(|word| inodes.contains(word))
        };
        let (header, lines) = content.split_once('\n').unwrap_or_default();
        let mut text: String = [header, "\n"].concat();
        for line in lines.lines().filter(|line| has_one(line)) {
            text.extend([line, "\n"]);
        }
        if text.lines().count() > 1 {
            write(&to.join(&name), text.as_bytes())?;
        }
    }
    Ok(())
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
