//! The texts that the kernel writes for any process or machine, with harmless values.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// What of the 52 fields of a `stat` file differs between fake processes.
#[derive(Clone, Debug)]
pub(crate) struct StatLine {
    pub(crate) child_system_ticks: u64,
    pub(crate) child_user_ticks: u64,
    pub(crate) comm: String,
    pub(crate) flags: u32,
    pub(crate) group: i32,
    pub(crate) pid: i32,
    pub(crate) ppid: i32,
    pub(crate) rss_pages: u64,
    pub(crate) session: i32,
    pub(crate) start_time_ticks: u64,
    pub(crate) state: char,
    pub(crate) system_ticks: u64,
    pub(crate) threads: usize,
    pub(crate) user_ticks: u64,
}

impl StatLine {
    /// The line, in the order of proc(5).
    pub(crate) fn render(&self) -> String {
        let StatLine {
            child_system_ticks,
            child_user_ticks,
            comm,
            flags,
            group,
            pid,
            ppid,
            ..
        } = self;
        let StatLine {
            rss_pages,
            session,
            start_time_ticks,
            state,
            system_ticks,
            threads,
            user_ticks,
            ..
        } = self;
        format!(
            "{pid} ({comm}) {state} {ppid} {group} {session} 0 -1 {flags} 100 0 0 0 {user_ticks} {system_ticks} \
             {child_user_ticks} {child_system_ticks} 20 0 {threads} 0 {start_time_ticks} 104857600 {rss_pages} \
             18446744073709551615 1 1 0 0 0 0 0 16781312 2 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        )
    }
}

/// Lines of a `status` file in the kernel's order; a replaced line keeps its place, a new one goes last.
pub(crate) fn status(lines: &[(&str, String)], replaced: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (key, value) in lines {
        let value = replaced.get(*key).unwrap_or(value);
        writeln!(text, "{key}:\t{value}").expect("a String takes everything");
    }
    let known = |key: &String| lines.iter().any(|(line, _)| line == key);
    for (key, value) in replaced.iter().filter(|(key, _)| !known(key)) {
        writeln!(text, "{key}:\t{value}").expect("a String takes everything");
    }
    text
}

/// All the texts in a row.
pub(crate) fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<String>>().concat()
}

/// Writes a file and the folders above it.
pub(crate) fn write(directory: &Path, name: &str, text: &str) {
    write_bytes(directory, name, text.as_bytes());
}

/// Writes a file and the folders above it.
pub(crate) fn write_bytes(directory: &Path, name: &str, bytes: &[u8]) {
    let path = directory.join(name);
    let parent = path.parent().expect("a file below a folder");
    fs::create_dir_all(parent).expect("a temporary folder can be written");
    fs::write(path, bytes).expect("a temporary folder can be written");
}

pub(crate) const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max file size             unlimited            unlimited            bytes     
Max data size             unlimited            unlimited            bytes     
Max stack size            8388608              unlimited            bytes     
Max core file size        0                    unlimited            bytes     
Max resident set          unlimited            unlimited            bytes     
Max processes             96365                96365                processes 
Max open files            1024                 1048576              files     
Max locked memory         8388608              8388608              bytes     
Max address space         unlimited            unlimited            bytes     
Max file locks            unlimited            unlimited            locks     
Max pending signals       96365                96365                signals   
Max msgqueue size         819200               819200               bytes     
Max nice priority         0                    0                    
Max realtime priority     0                    0                    
Max realtime timeout      unlimited            unlimited            us        
";

pub(crate) const IO: &str = "\
rchar: 2048
wchar: 1024
syscr: 20
syscw: 10
read_bytes: 4096
write_bytes: 8192
cancelled_write_bytes: 0
";

/// The files of a healthy machine with two CPUs and 16 GiB, relative to the proc root.
pub(crate) const MACHINE: [(&str, &str); 16] = [
    (
        "cpuinfo",
        "processor\t: 0\nmodel name\t: Fake CPU\n\nprocessor\t: 1\nmodel name\t: Fake CPU\n\n",
    ),
    ("filesystems", "nodev\tproc\nnodev\tcgroup2\n\text4\n"),
    ("loadavg", "0.50 0.25 0.10 1/100 1000\n"),
    ("locks", ""),
    (
        "meminfo",
        "MemTotal:       16777216 kB\nMemFree:         4194304 kB\nMemAvailable:    8388608 kB\nBuffers:               0 kB\n\
         Cached:          4194304 kB\nSwapTotal:             0 kB\nSwapFree:              0 kB\nShmem:                 0 kB\n",
    ),
    (
        "pressure/cpu",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    ),
    (
        "pressure/io",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=2\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=2\n",
    ),
    (
        "pressure/memory",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=3\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n",
    ),
    (
        "self/mountinfo",
        "22 1 0:20 / / rw,relatime - ext4 /dev/root rw\n\
         23 22 0:21 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw\n\
         24 22 0:22 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime - cgroup2 cgroup2 rw\n\
         25 22 0:23 / /dev/shm rw,nosuid,nodev - tmpfs tmpfs rw\n",
    ),
    (
        "stat",
        "cpu  10 0 10 1000 0 0 0 0 0 0\ncpu0 5 0 5 500 0 0 0 0 0 0\ncpu1 5 0 5 500 0 0 0 0 0 0\nbtime 1700000000\n",
    ),
    ("sys/kernel/hostname", "fake\n"),
    ("sys/kernel/osrelease", "6.1.0-fake\n"),
    ("sys/kernel/pid_max", "4194304\n"),
    (
        "sys/kernel/random/boot_id",
        "01234567-89ab-cdef-0123-456789abcdef\n",
    ),
    ("uptime", "1000.00 2000.00\n"),
    ("version", "Linux version 6.1.0-fake (fake@fake) #1 SMP\n"),
];
