//! A process of a fake machine in words of the domain, and the files of its `/proc/PID` folder.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::fake_thread::{FakeThread, replace};
use crate::kernel_text::{IO, LIMITS, StatLine, joined, status, write, write_bytes};

/// A process: at first one sleeping thread called `fake`, a child of PID 1, in the root cgroup, with no descriptors.
#[derive(Clone, Debug)]
#[must_use]
pub struct FakeProcess {
    cgroup: String,
    child_ticks: (u64, u64),
    cmdline: Vec<u8>,
    comm: Option<String>,
    descriptors: BTreeMap<u32, (String, String)>,
    environment: Vec<u8>,
    exe: Option<String>,
    files: BTreeMap<String, Option<String>>,
    flags: u32,
    group: Option<i32>,
    pid: i32,
    pub(crate) ppid: i32,
    rss_kib: u64,
    session: Option<i32>,
    start_time_ticks: u64,
    status_lines: BTreeMap<String, String>,
    threads: BTreeMap<i32, FakeThread>,
    uid: u32,
}

impl FakeProcess {
    pub(crate) fn new(pid: i32) -> FakeProcess {
        FakeProcess {
            cgroup: "0::/\n".to_owned(),
            child_ticks: (0, 0),
            cmdline: b"fake\0".to_vec(),
            comm: None,
            descriptors: BTreeMap::new(),
            environment: Vec::new(),
            exe: Some("/usr/bin/fake".to_owned()),
            files: BTreeMap::new(),
            flags: 0x0040_0000,
            group: None,
            pid,
            ppid: 1,
            rss_kib: 10_240,
            session: None,
            start_time_ticks: 1000,
            status_lines: BTreeMap::new(),
            threads: BTreeMap::from([(pid, FakeThread::new(pid))]),
            uid: 1000,
        }
    }

    /// The whole text of its `cgroup` file, such as `"0::/task\n"`.
    pub fn cgroup(mut self, text: &str) -> FakeProcess {
        text.clone_into(&mut self.cgroup);
        self
    }

    /// CPU time of children that it has waited for: user mode and kernel, clock ticks.
    pub fn child_cpu_ticks(mut self, user: u64, system: u64) -> FakeProcess {
        self.child_ticks = (user, system);
        self
    }

    /// Its arguments; the first one also names the process unless `comm` does.
    pub fn cmdline<const N: usize>(self, arguments: [&str; N]) -> FakeProcess {
        let text = joined(arguments.iter().map(|argument| format!("{argument}\0")));
        self.cmdline_bytes(text.as_bytes())
    }

    /// The raw bytes of its `cmdline` file.
    pub fn cmdline_bytes(mut self, bytes: &[u8]) -> FakeProcess {
        self.cmdline = bytes.to_vec();
        self
    }

    /// Its name, of which the kernel keeps 15 bytes; parentheses and spaces are allowed.
    pub fn comm(mut self, comm: &str) -> FakeProcess {
        self.comm = Some(comm.to_owned());
        self
    }

    /// CPU time of the process: user mode and kernel, clock ticks.
    pub fn cpu_ticks(self, user: u64, system: u64) -> FakeProcess {
        self.main_thread(|thread| thread.cpu_ticks(user, system))
    }

    /// Its environment when it was started.
    pub fn environment<const N: usize>(mut self, variables: [(&str, &str); N]) -> FakeProcess {
        let text = joined(
            variables
                .iter()
                .map(|(name, value)| format!("{name}={value}\0")),
        );
        self.environment = text.into_bytes();
        self
    }

    /// Its executable file; the link dangles unless the path exists here.
    pub fn exe(mut self, path: &str) -> FakeProcess {
        self.exe = Some(path.to_owned());
        self
    }

    /// Opens a descriptor on `target`, such as `pipe:[5]`, with a plain `fdinfo`.
    pub fn fd(self, number: u32, target: &str) -> FakeProcess {
        self.fd_with_info(
            number,
            target,
            "pos:\t0\nflags:\t0100000\nmnt_id:\t15\nino:\t5\n",
        )
    }

    /// Opens a descriptor on `target` with this text in `fdinfo`.
    pub fn fd_with_info(mut self, number: u32, target: &str, info: &str) -> FakeProcess {
        self.descriptors
            .insert(number, (target.to_owned(), info.to_owned()));
        self
    }

    /// Writes `text` to a file of its folder, over what would stand there.
    pub fn file(mut self, name: &str, text: &str) -> FakeProcess {
        self.files.insert(name.to_owned(), Some(text.to_owned()));
        self
    }

    /// Makes it a kernel thread: no executable, no arguments, no environment, no memory.
    pub fn kernel_thread(mut self, comm: &str) -> FakeProcess {
        self.flags = 0x0020_8040;
        self.comm = Some(comm.to_owned());
        self.without_user_space()
    }

    /// The kernel functions the main thread is in, innermost first.
    pub fn kernel_stack<const N: usize>(self, functions: [&str; N]) -> FakeProcess {
        self.main_thread(|thread| thread.kernel_stack(functions))
    }

    /// The PID of its parent.
    pub fn ppid(mut self, ppid: i32) -> FakeProcess {
        self.ppid = ppid;
        self
    }

    /// Its process group; its own otherwise.
    pub fn process_group(mut self, group: i32) -> FakeProcess {
        self.group = Some(group);
        self
    }

    /// Its resident memory, KiB.
    pub fn rss_kib(mut self, kib: u64) -> FakeProcess {
        self.rss_kib = kib;
        self
    }

    /// Its session; its own otherwise.
    pub fn session(mut self, session: i32) -> FakeProcess {
        self.session = Some(session);
        self
    }

    /// Clock ticks from boot to its start.
    pub fn start_time_ticks(mut self, ticks: u64) -> FakeProcess {
        self.start_time_ticks = ticks;
        self
    }

    /// Its state letter, which is that of the main thread.
    pub fn state(self, state: char) -> FakeProcess {
        self.main_thread(|thread| thread.state(state))
    }

    /// Sets or adds one line of its `status` file.
    pub fn status_line(mut self, key: &str, value: &str) -> FakeProcess {
        self.status_lines.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The text of the main thread's `syscall` file, without the newline.
    pub fn syscall(self, text: &str) -> FakeProcess {
        self.main_thread(|thread| thread.syscall(text))
    }

    /// Adds a thread.
    pub fn thread(
        mut self,
        tid: i32,
        describe: impl FnOnce(FakeThread) -> FakeThread,
    ) -> FakeProcess {
        let thread = self
            .threads
            .remove(&tid)
            .unwrap_or_else(|| FakeThread::new(tid));
        self.threads.insert(tid, describe(thread));
        self
    }

    /// The user it runs as.
    pub fn uid(mut self, uid: u32) -> FakeProcess {
        self.uid = uid;
        self
    }

    /// The kernel function the main thread waits in.
    pub fn wchan(self, function: &str) -> FakeProcess {
        self.main_thread(|thread| thread.wchan(function))
    }

    /// Leaves a file of its folder out.
    pub fn without(mut self, name: &str) -> FakeProcess {
        self.files.insert(name.to_owned(), None);
        self
    }

    /// Makes it a zombie: ended, not yet waited for.
    pub fn zombie(self) -> FakeProcess {
        self.state('Z').without_user_space()
    }

    fn main_thread(self, describe: impl FnOnce(FakeThread) -> FakeThread) -> FakeProcess {
        let pid = self.pid;
        self.thread(pid, describe)
    }

    fn without_user_space(mut self) -> FakeProcess {
        self.comm = Some(self.name());
        self.cmdline.clear();
        self.environment.clear();
        self.descriptors.clear();
        self.exe = None;
        self.rss_kib = 0;
        self
    }

    fn name(&self) -> String {
        let name = self.comm.clone().unwrap_or_else(|| {
            let program = self
                .cmdline
                .split(|byte| *byte == 0)
                .next()
                .unwrap_or_default();
            let base = program
                .rsplit(|byte| *byte == b'/')
                .next()
                .unwrap_or_default();
            String::from_utf8_lossy(base).into_owned()
        });
        name.chars().take(15).collect()
    }

    /// Writes the folder anew; `children` are the PIDs whose parent it is.
    pub(crate) fn write(&self, directory: &Path, children: &[i32]) {
        write_bytes(directory, "cmdline", &self.cmdline);
        write_bytes(directory, "environ", &self.environment);
        write(directory, "cgroup", &self.cgroup);
        write(directory, "io", IO);
        write(directory, "limits", LIMITS);
        write(directory, "oom_score", "666\n");
        write(directory, "oom_score_adj", "0\n");
        write(
            directory,
            "mountinfo",
            "22 1 0:20 / / rw,relatime - ext4 /dev/root rw\n",
        );
        write(directory, "maps", &self.maps());
        write(
            directory,
            "statm",
            &format!("25600 {} 10 10 0 10 0\n", self.rss_kib / 4),
        );
        link(directory, "cwd", "/");
        link(directory, "root", "/");
        if let Some(exe) = &self.exe {
            link(directory, "exe", exe);
        }
        fs::create_dir_all(directory.join("ns")).expect("a temporary folder can be written");
        for (name, number) in NAMESPACES {
            link(
                directory,
                &format!("ns/{name}"),
                &format!("{name}:[{number}]"),
            );
        }
        self.write_descriptors(directory);
        for thread in self.threads.values() {
            let (stat, status) = (self.stat(thread), self.status(thread));
            let task = directory.join(format!("task/{}", thread.tid));
            thread.write(&task, &stat, &status);
            let is_main = thread.tid == self.pid;
            let listed = if is_main { children } else { &[] };
            write(
                &task,
                "children",
                &joined(listed.iter().map(|pid| format!("{pid} "))),
            );
            if is_main {
                thread.write(directory, &stat, &status);
            }
            thread.write_replacements(&task);
        }
        replace(directory, &self.files);
    }

    fn write_descriptors(&self, directory: &Path) {
        for folder in ["fd", "fdinfo"] {
            fs::create_dir_all(directory.join(folder)).expect("a temporary folder can be written");
        }
        for (number, (target, info)) in &self.descriptors {
            link(directory, &format!("fd/{number}"), target);
            write(directory, &format!("fdinfo/{number}"), info);
        }
    }

    fn maps(&self) -> String {
        joined(self.exe.iter().map(|path| {
            format!("00400000-00500000 r-xp 00000000 08:01 100                        {path}\n")
        }))
    }

    fn stat(&self, thread: &FakeThread) -> StatLine {
        StatLine {
            child_system_ticks: self.child_ticks.1,
            child_user_ticks: self.child_ticks.0,
            comm: thread.comm.clone().unwrap_or_else(|| self.name()),
            flags: self.flags,
            group: self.group.unwrap_or(self.pid),
            pid: thread.tid,
            ppid: self.ppid,
            rss_pages: self.rss_kib / 4,
            session: self.session.unwrap_or(self.pid),
            start_time_ticks: self.start_time_ticks,
            state: thread.state,
            system_ticks: thread.system_ticks,
            threads: self.threads.len(),
            user_ticks: thread.user_ticks,
        }
    }

    fn status(&self, thread: &FakeThread) -> String {
        let uid = self.uid;
        let mut lines = vec![
            ("Name", thread.comm.clone().unwrap_or_else(|| self.name())),
            ("Umask", "0022".to_owned()),
            ("State", state_text(thread.state)),
            ("Tgid", self.pid.to_string()),
            ("Ngid", "0".to_owned()),
            ("Pid", thread.tid.to_string()),
            ("PPid", self.ppid.to_string()),
            ("TracerPid", "0".to_owned()),
            ("Uid", format!("{uid}\t{uid}\t{uid}\t{uid}")),
            ("Gid", format!("{uid}\t{uid}\t{uid}\t{uid}")),
            ("FDSize", "64".to_owned()),
            ("NSpid", thread.tid.to_string()),
        ];
        if self.exe.is_some() {
            let rss = format!("{:8} kB", self.rss_kib);
            let memory = [
                ("VmPeak", "  102400 kB"),
                ("VmSize", "  102400 kB"),
                ("VmHWM", &rss),
                ("VmRSS", &rss),
            ];
            lines.extend(memory.map(|(key, value)| (key, value.to_owned())));
            let parts = [
                ("RssAnon", rss.as_str()),
                ("RssFile", "       0 kB"),
                ("RssShmem", "       0 kB"),
            ];
            lines.extend(parts.map(|(key, value)| (key, value.to_owned())));
            lines.push(("VmSwap", "       0 kB".to_owned()));
        }
        lines.push(("Threads", self.threads.len().to_string()));
        let signals = ["SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt"];
        lines.extend(signals.map(|key| (key, "0000000000000000".to_owned())));
        lines.push(("Seccomp", "0".to_owned()));
        lines.push(("Cpus_allowed_list", "0-1".to_owned()));
        lines.push(("voluntary_ctxt_switches", "10".to_owned()));
        lines.push(("nonvoluntary_ctxt_switches", "1".to_owned()));
        status(&lines, &self.status_lines)
    }
}

/// Those that a kernel makes for its first process.
const NAMESPACES: [(&str, u32); 7] = [
    ("cgroup", 4_026_531_835),
    ("ipc", 4_026_531_839),
    ("mnt", 4_026_531_841),
    ("net", 4_026_531_840),
    ("pid", 4_026_531_836),
    ("user", 4_026_531_837),
    ("uts", 4_026_531_838),
];

fn state_text(state: char) -> String {
    let word = match state {
        'R' => "running",
        'S' => "sleeping",
        'D' => "disk sleep",
        'T' => "stopped",
        't' => "tracing stop",
        'Z' => "zombie",
        'X' => "dead",
        'I' => "idle",
        _ => "unknown",
    };
    format!("{state} ({word})")
}

fn link(directory: &Path, name: &str, target: &str) {
    symlink(target, directory.join(name)).expect("a temporary folder can be written");
}
