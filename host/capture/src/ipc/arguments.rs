//! What a thread waits for that only the memory of the target names: the file of a call that takes a path, such as the
//! `openat` of a FIFO without a writer or the `stat` of a file on a server that does not answer; the descriptors of a
//! `poll`.

use std::collections::BTreeMap;

use model::{Process, ProcessId, Thread};
use serde::{Deserialize, Serialize};

/// Calls that take a path, and which argument it is.
const CALLS: [(&str, usize); 46] = [
    ("access", 0),
    ("chdir", 0),
    ("chmod", 0),
    ("chown", 0),
    ("creat", 0),
    ("execve", 0),
    ("execveat", 1),
    ("faccessat", 1),
    ("faccessat2", 1),
    ("fchmodat", 1),
    ("fchownat", 1),
    ("getxattr", 0),
    ("inotify_add_watch", 1),
    ("lchown", 0),
    ("lgetxattr", 0),
    ("link", 0),
    ("linkat", 1),
    ("listxattr", 0),
    ("lstat", 0),
    ("mkdir", 0),
    ("mkdirat", 1),
    ("mknod", 0),
    ("mknodat", 1),
    ("mount", 1),
    ("newfstatat", 1),
    ("open", 0),
    ("openat", 1),
    ("openat2", 1),
    ("readlink", 0),
    ("readlinkat", 1),
    ("rename", 0),
    ("renameat", 1),
    ("renameat2", 1),
    ("rmdir", 0),
    ("setxattr", 0),
    ("stat", 0),
    ("statfs", 0),
    ("statx", 1),
    ("swapon", 0),
    ("truncate", 0),
    ("umount2", 0),
    ("unlink", 0),
    ("unlinkat", 1),
    ("utime", 0),
    ("utimensat", 1),
    ("utimes", 0),
];

/// More threads of one process are not asked about.
const MOST_THREADS: usize = 64;

/// The size of a `struct pollfd`.
pub(crate) const POLLED_BYTES: usize = 8;
/// More descriptors of one `poll` are not read.
const MOST_POLLED: u64 = 256;

/// Where the argument of a call is, and how to tell that the call is still the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ArgumentRequest {
    pub(crate) address: u64,
    /// What `/proc/PID/task/TID/syscall` said.
    pub(crate) call: String,
    pub(crate) kind: Kind,
    pub(crate) tid: i32,
}

/// What an argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Path,
    /// So many `struct pollfd`.
    Polled(usize),
}

impl Kind {
    /// What a gap calls it.
    pub(super) fn part(self) -> &'static str {
        match self {
            Self::Path => "ipc/path",
            Self::Polled(_) => "ipc/poll",
        }
    }
}

/// What it pointed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Argument {
    Path(String),
    Polled(Vec<i32>),
}

/// Returns what to ask of the threads of `process`.
pub(super) fn wanted(process: &Process) -> Vec<ArgumentRequest> {
    let threads = process.proc.threads.iter();
    threads.filter_map(request).take(MOST_THREADS).collect()
}

fn request(thread: &Thread) -> Option<ArgumentRequest> {
    let line = thread.syscall.as_ref()?;
    let name = thread.call.as_ref()?.name.as_str();
    let argument = |at: usize| {
        let word = line.split_ascii_whitespace().nth(1 + at)?;
        u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
    };
    let (at, kind) = if matches!(name, "poll" | "ppoll" | "ppoll_time64") {
        let count = argument(1)?.min(MOST_POLLED);
        (0, Kind::Polled(usize::try_from(count).ok()?))
    } else {
        let at = CALLS.binary_search_by_key(&name, |(name, _)| name).ok()?;
        (CALLS[at].1, Kind::Path)
    };
    Some(ArgumentRequest {
        address: argument(at)?,
        call: line.clone(),
        kind,
        tid: thread.tid,
    })
}

/// Returns the descriptors in `struct pollfd` (a descriptor, two times 16 bits of events); a negative one is not waited for.
pub(crate) fn polled(bytes: &[u8]) -> Vec<i32> {
    let entries = bytes.chunks_exact(POLLED_BYTES);
    let fds =
        entries.filter_map(|entry| Some(i32::from_ne_bytes(entry.get(..4)?.try_into().ok()?)));
    fds.filter(|&fd| fd >= 0).collect()
}

/// Puts what was read to the calls.
pub(super) fn complete(
    processes: &mut [Process],
    mut arguments: BTreeMap<(ProcessId, i32), Argument>,
) {
    for process in processes {
        for thread in &mut process.proc.threads {
            let argument = arguments.remove(&(process.identity, thread.tid));
            match (argument, &mut thread.call) {
                (Some(Argument::Path(path)), Some(call)) => call.path = Some(path),
                (Some(Argument::Polled(fds)), Some(call)) => call.fds = fds,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::SystemCall;

    fn thread(name: &str, line: &str) -> Thread {
        let call = SystemCall {
            name: name.to_owned(),
            ..SystemCall::default()
        };
        Thread {
            call: Some(call),
            syscall: Some(line.to_owned()),
            tid: 7,
            ..Thread::default()
        }
    }

    #[test]
    fn the_path_is_where_its_call_has_it() {
        let line = "257 0xffffff9c 0x7f10 0x80000 0x0 0x0 0x0 0x7ffd 0x7f11";
        let request = request(&thread("openat", line)).unwrap();
        assert_eq!((request.address, request.tid), (0x7f10, 7));
        assert_eq!(request.call, line);
        let open = super::request(&thread("open", "2 0x7f20 0x0")).unwrap();
        assert_eq!(open.address, 0x7f20);
        assert!(super::request(&thread("read", line)).is_none());
        assert!(super::request(&thread("openat", "running")).is_none());
        let poll = super::request(&thread("poll", "7 0x7f30 0x3 0xffffffff")).unwrap();
        assert_eq!((poll.address, poll.kind), (0x7f30, Kind::Polled(3)));
        let many = super::request(&thread("ppoll", "271 0x7f30 0xffffffff")).unwrap();
        assert_eq!(many.kind, Kind::Polled(256));
    }

    #[test]
    fn descriptors_that_are_not_waited_for_are_left_out() {
        let mut bytes = Vec::new();
        for fd in [4_i32, -1, 9] {
            bytes.extend(fd.to_ne_bytes());
            bytes.extend([1, 0, 0, 0]);
        }
        bytes.push(7);
        assert_eq!(polled(&bytes), [4, 9]);
    }

    #[test]
    fn the_list_can_be_searched() {
        assert!(CALLS.is_sorted());
    }
}
