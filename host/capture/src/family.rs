//! Who is whose child, from `/proc/PID/task/*/children`, without a walk over all processes of the machine.
//!
//! A kernel without `CONFIG_PROC_CHILDREN` has no such file: then one walk over `/proc/*/stat` answers instead. The
//! kernel may leave a child out of the file while its siblings come and go, so what was once seen is remembered by
//! the scope.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use model::ProcessId;

use crate::error::malformed;
use crate::machine::Machine;
use crate::proc::reader::open_directory;
use crate::proc::{Reader, Stat, stat};

/// Answers questions about the processes of a machine at one moment.
pub(crate) struct Family {
    pub(crate) reader: Reader,
    /// What was read of processes whose children were not asked for yet.
    known: BTreeMap<i32, Stat>,
    root: OwnedFd,
    walked: Option<BTreeMap<i32, Vec<i32>>>,
}

impl Family {
    pub(crate) fn of(machine: &Machine) -> io::Result<Self> {
        let path = machine.proc.to_str().ok_or_else(malformed)?;
        Ok(Self {
            reader: Reader::new(),
            known: BTreeMap::new(),
            root: open_directory(rustix::fs::CWD, path)?,
            walked: None,
        })
    }

    /// Returns what `stat` says of `pid` now; nothing if there is no such process.
    pub(crate) fn stat(&mut self, pid: i32) -> Option<Stat> {
        let path = format!("{pid}/stat");
        let content = self.reader.read_record(self.root.as_fd(), &path).ok()?;
        stat::parse(content).filter(|stat| stat.pid == pid)
    }

    /// Returns what `stat` says of the very process `id`.
    pub(crate) fn stat_of(&mut self, id: ProcessId) -> Option<Stat> {
        self.stat(id.pid)
            .filter(|stat| stat.start_time_ticks == id.start_time_ticks)
    }

    /// Returns the content of the `status` file of `pid`.
    pub(crate) fn status(&mut self, pid: i32) -> io::Result<&[u8]> {
        let path = format!("{pid}/status");
        self.reader.read_record(self.root.as_fd(), &path)
    }

    /// Returns the lines of the `cgroup` file of `pid`.
    pub(crate) fn cgroup_lines(&mut self, pid: i32) -> io::Result<Vec<String>> {
        let path = format!("{pid}/cgroup");
        let content = self.reader.read_record(self.root.as_fd(), &path)?;
        Ok(crate::proc::text::lines(content))
    }

    /// Adds `pid`, a process that `stat` is of, and all its descendants to `found`, but none of `excluded` and
    /// nothing below them.
    pub(crate) fn collect(
        &mut self,
        stat: Stat,
        excluded: &BTreeSet<i32>,
        found: &mut BTreeMap<i32, Stat>,
    ) {
        let mut waiting = vec![stat];
        while let Some(stat) = waiting.pop() {
            let (pid, threads) = (stat.pid, stat.threads);
            if excluded.contains(&pid) || found.insert(pid, stat).is_some() {
                continue;
            }
            waiting.extend(self.children(pid, threads));
        }
    }

    /// Returns the children of `pid`, a process of so many threads.
    pub(crate) fn children(&mut self, pid: i32, threads: u64) -> Vec<Stat> {
        let pids = match &self.walked {
            Some(walked) => walked.get(&pid).cloned().unwrap_or_default(),
            None => self.listed_children(pid, threads),
        };
        let children = pids.into_iter();
        children
            .filter_map(|child| self.child_of(pid, child))
            .collect()
    }

    /// Notes what `stat` said of a process, so that it is not read again when the process turns out to be a child.
    pub(crate) fn note(&mut self, stat: &Stat) {
        self.known.insert(stat.pid, stat.clone());
    }

    /// Returns what `stat` says of `child`, which was listed as a child of `pid`.
    fn child_of(&mut self, pid: i32, child: i32) -> Option<Stat> {
        // What was noted before holds if it names the same parent: a process has its parent until that one ends, and a PID that
        // was used again is found out by whoever opens the process.
        let known = self.known.remove(&child);
        let known = known.filter(|known| known.ppid == pid);
        // A PID that was listed may be another process by now: then its parent is another one as well.
        known
            .or_else(|| self.stat(child))
            .filter(|stat| stat.ppid == pid)
    }

    fn listed_children(&mut self, pid: i32, threads: u64) -> Vec<i32> {
        let tids = if threads == 1 {
            vec![pid]
        } else {
            let listed = self
                .reader
                .numbers(self.root.as_fd(), &format!("{pid}/task"));
            listed.map_or(Vec::new(), |(_, tids)| tids)
        };
        let mut children = Vec::new();
        for tid in tids {
            let path = format!("{pid}/task/{tid}/children");
            let listed = self.reader.read(self.root.as_fd(), &path).map(parse);
            if let Ok(listed) = listed {
                children.extend(listed);
            } else if self.lacks_children_files(pid, tid) {
                let walked = self.walk();
                children = walked.get(&pid).cloned().unwrap_or_default();
                self.walked = Some(walked);
                break;
            }
        }
        children
    }

    /// Whether the file is missing although the thread is there.
    fn lacks_children_files(&mut self, pid: i32, tid: i32) -> bool {
        let mut exists = |name: &str| {
            let path = format!("{pid}/task/{tid}/{name}");
            self.reader.read(self.root.as_fd(), &path).is_ok()
        };
        exists("stat") && !exists("children")
    }

    /// Returns the PIDs of the machine, in order.
    pub(crate) fn all(&mut self) -> Vec<i32> {
        let listed = self.reader.numbers(self.root.as_fd(), ".");
        listed.map_or(Vec::new(), |(_, pids)| pids)
    }

    fn walk(&mut self) -> BTreeMap<i32, Vec<i32>> {
        let mut walked = BTreeMap::<i32, Vec<i32>>::new();
        for pid in self.all() {
            if let Some(stat) = self.stat(pid) {
                walked.entry(stat.ppid).or_default().push(pid);
            }
        }
        walked
    }
}

fn parse(content: &[u8]) -> Vec<i32> {
    let text = String::from_utf8_lossy(content);
    let words = text.split_ascii_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}
