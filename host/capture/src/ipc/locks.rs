//! File locks: `/proc/locks`, whose list is of the whole machine, and the locks of the task in it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use model::{FileDescriptor, FileLock, Gap, GapCode, LockWaiter, Owner, Process, ProcessId};

use super::descriptor;
use super::system_calls;
use crate::gaps::GapList;
use crate::proc::Reader;
use rustix::fs::CWD;

/// More of the list is not read: the kernel holds all locks of the machine while it writes it.
const LIMIT: usize = 1 << 20;

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Line<'a> {
    access: &'a str,
    class: &'a str,
    device: Option<&'a str>,
    end: Option<u64>,
    inode: Option<u64>,
    is_waiter: bool,
    number: u64,
    pid: Option<i32>,
    start: u64,
}

/// Returns the locks that a process of the task holds or waits for. The list is read only if there is one.
pub(super) fn read(
    proc: &Path,
    processes: &[Process],
    reader: &mut Reader,
    gaps: &mut GapList,
) -> Vec<FileLock> {
    let held = held(processes);
    if held.is_empty() && !processes.iter().any(may_wait) {
        return Vec::new();
    }
    let content = list(proc, reader);
    let Some((content, more)) = gaps.keep("ipc/locks", content) else {
        return Vec::new();
    };
    if more {
        let detail = format!("the first {LIMIT} bytes were read");
        gaps.add(Gap::new("ipc/locks", GapCode::Truncated).with_detail(detail));
    }
    of_task(&String::from_utf8_lossy(content), processes, &held)
}

fn list<'a>(proc: &Path, reader: &'a mut Reader) -> io::Result<(&'a [u8], bool)> {
    let path = proc.join("locks");
    let path = path.to_str().ok_or_else(crate::error::malformed)?;
    reader.read_up_to(CWD, path, LIMIT)
}

fn may_wait(process: &Process) -> bool {
    let mut threads = process.proc.threads.iter();
    threads.any(system_calls::locks_a_file)
}

type Held<'a> = Vec<(Line<'a>, &'a Process, &'a FileDescriptor)>;

/// The `lock:` lines of descriptors; the number in them counts the locks of the descriptor.
fn held(processes: &[Process]) -> Held<'_> {
    let mut held = Vec::new();
    for process in processes {
        for descriptor in &process.proc.file_descriptors {
            let info = descriptor.info.iter().flatten();
            let lines = info.filter(|(key, _)| *key == "lock" || key.starts_with("lock#"));
            held.extend(lines.filter_map(|(_, text)| Some((line_of(text)?, process, descriptor))));
        }
    }
    held
}

fn of_task(text: &str, processes: &[Process], held: &Held<'_>) -> Vec<FileLock> {
    let ids: BTreeMap<i32, ProcessId> = processes
        .iter()
        .map(|process| (process.pid, process.identity))
        .collect();
    let mut locks: Vec<FileLock> = Vec::new();
    let mut number = None;
    for line in text.lines().filter_map(line_of) {
        if !line.is_waiter {
            number = Some(line.number);
            let owners: Vec<Owner> = held
                .iter()
                .filter(|(known, _, _)| is_same(known, &line))
                .map(|(_, process, descriptor)| descriptor::owner(process, descriptor, None))
                .collect();
            locks.push(lock_of(&line, owners, &ids));
        } else if number == Some(line.number)
            && let Some(lock) = locks.last_mut()
        {
            lock.waiters.push(LockWaiter {
                access: line.access.to_owned(),
                identity: line.pid.and_then(|pid| ids.get(&pid).copied()),
                pid: line.pid,
            });
        }
    }
    locks.retain(|lock| {
        lock.holder.is_some()
            || !lock.owners.is_empty()
            || lock.waiters.iter().any(|waiter| waiter.identity.is_some())
    });
    for lock in &mut locks {
        lock.path = path_of(lock, processes);
    }
    locks
}

fn lock_of(line: &Line<'_>, owners: Vec<Owner>, ids: &BTreeMap<i32, ProcessId>) -> FileLock {
    FileLock {
        access: line.access.to_owned(),
        class: line.class.to_owned(),
        device: line.device.map(str::to_owned),
        end: line.end,
        holder: line.pid.and_then(|pid| ids.get(&pid).copied()),
        holder_pid: line.pid,
        inode: line.inode,
        owners,
        path: None,
        start: line.start,
        waiters: Vec::new(),
    }
}

/// The name of the file, from the descriptors that hold the lock; else from those of holder and waiters with its inode.
fn path_of(lock: &FileLock, processes: &[Process]) -> Option<String> {
    let mut names = BTreeSet::new();
    let holding = lock.owners.iter().map(|owner| owner.identity);
    let waiting = lock.waiters.iter().filter_map(|waiter| waiter.identity);
    let parties: BTreeSet<ProcessId> = holding.chain(waiting).chain(lock.holder).collect();
    let parties = processes
        .iter()
        .filter(|process| parties.contains(&process.identity));
    for process in parties {
        for descriptor in &process.proc.file_descriptors {
            let holds =
                |owner: &Owner| owner.identity == process.identity && owner.fd == descriptor.fd;
            let is_of_it = if lock.owners.is_empty() {
                lock.inode.is_some() && descriptor::number(descriptor, "ino") == lock.inode
            } else {
                lock.owners.iter().any(holds)
            };
            if is_of_it {
                names.insert(descriptor.target.as_str());
            }
        }
    }
    let mut names = names.into_iter();
    let name = names.next()?.to_owned();
    names.next().is_none().then_some(name)
}

fn is_same(one: &Line<'_>, other: &Line<'_>) -> bool {
    let number = one.number;
    let other = Line {
        number,
        ..other.clone()
    };
    *one == other
}

/// A line is `NUMBER: [->] CLASS MODE ACCESS PID MAJOR:MINOR:INODE START END`.
fn line_of(text: &str) -> Option<Line<'_>> {
    let (number, rest) = text.split_once(':')?;
    let mut fields = rest.split_ascii_whitespace().peekable();
    let is_waiter = fields.next_if_eq(&"->").is_some();
    let class = fields.next()?;
    let _mode = fields.next()?;
    let access = fields.next()?;
    let pid: i32 = fields.next()?.parse().ok()?;
    let (device, inode) = fields.next()?.rsplit_once(':')?;
    let is_known = !device.starts_with('<');
    Some(Line {
        access,
        class,
        device: is_known.then_some(device),
        inode: inode.parse().ok().filter(|_| is_known),
        is_waiter,
        number: number.trim().parse().ok()?,
        // -1 where no process owns it, 0 where its PID has no number here.
        pid: (pid > 0).then_some(pid),
        start: fields.next()?.parse().ok()?,
        end: match fields.next()? {
            "EOF" => None,
            end => Some(end.parse().ok()?),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REAL: &str = "1: FLOCK  ADVISORY  WRITE 6751 fe:00:10011479 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 6800 fe:00:10011479 0 EOF\n1:  -> FLOCK  ADVISORY  READ 6801 fe:00:10011479 0 EOF\n2: POSIX  ADVISORY  READ 77 00:1a:5 128 255\n3: OFDLCK ADVISORY  WRITE -1 fe:00:9 0 EOF\n4: LEASE  ACTIVE    READ 12 fe:00:10 0 EOF\n5: POSIX  *NOINODE* WRITE 0 <none>:0 0 EOF\nodd\n";

    #[test]
    fn real_lines_are_read_each_with_all_it_says() {
        let lines: Vec<_> = REAL.lines().filter_map(line_of).collect();
        assert_eq!(lines.len(), 7);
        let waits: Vec<_> = lines.iter().map(|line| line.is_waiter).collect();
        assert_eq!(waits, [false, true, true, false, false, false, false]);
        let posix = &lines[3];
        assert_eq!(
            (posix.class, posix.access, posix.pid),
            ("POSIX", "READ", Some(77))
        );
        assert_eq!((posix.device, posix.inode), (Some("00:1a"), Some(5)));
        assert_eq!((posix.start, posix.end), (128, Some(255)));
        assert_eq!(
            (lines[0].end, lines[4].pid, lines[6].pid),
            (None, None, None)
        );
        assert_eq!((lines[6].device, lines[6].inode), (None, None));
    }

    #[test]
    fn a_lock_of_strangers_is_left_out_and_a_stranger_that_holds_ours_is_kept() {
        let identity = ProcessId {
            pid: 6800,
            start_time_ticks: 1,
        };
        let process: Process = serde_json::from_value(serde_json::json!({
            "cgroup": [], "cmdline": [], "command": "", "distributed_environment": {},
            "exe": null, "identity": identity, "matches_pattern": false, "pid": 6800, "ppid": 1,
            "proc": { "file_descriptors": [{ "fd": "3", "info": { "ino": "10011479" },
                "target": "/tmp/lock" }], "io": {}, "kernel_stack": [], "limits": [],
                "schedstat": null, "status": {}, "syscall": null, "threads": [], "wchan": null },
            "pyspy": null, "python_candidate": false, "start_time_ticks": 1, "state": "S"
        }))
        .unwrap();
        let locks = of_task(REAL, &[process], &Vec::new());
        assert_eq!(locks.len(), 1);
        assert_eq!((locks[0].holder_pid, locks[0].holder), (Some(6751), None));
        assert_eq!(locks[0].path.as_deref(), Some("/tmp/lock"));
        assert_eq!(locks[0].waiters[0].identity, Some(identity));
        assert_eq!(
            (locks[0].waiters[1].pid, locks[0].waiters[1].identity),
            (Some(6801), None)
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "([0-9]{1,3}: (-> )?[A-Z]{0,6} [A-Z]{0,4} [0-9:<>a-f -]{0,40}\n?){0,4}") {
            let _ = of_task(&text, &[], &Vec::new());
        }
    }
}
