//! What a thread waits for that only the memory of the target names: the file of a call that takes a path, such as the
//! `openat` of a FIFO without a writer or the `stat` of a file on a server that does not answer; the descriptors of a
//! `poll` or `select`; the futexes of a `futex_waitv`.

use std::collections::BTreeMap;

use model::{Process, ProcessId, Thread};
use serde::{Deserialize, Serialize};

use super::futex::Words;
use crate::call::{argument, narrow_argument};

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
/// More descriptors of one `poll` or `select` are not read.
const MOST_POLLED: u32 = 256;
/// Which argument of a `select` the first of its three sets is.
const SETS: usize = 1;
/// Higher descriptors of a `select` are not looked for: a set of the C library has no more (`FD_SETSIZE`).
const MOST_SELECTED: u32 = 1024;
/// The kernel takes no more futexes at once (`FUTEX_WAITV_MAX`).
const MOST_WAITED: u32 = 128;

/// Where the argument of a call is, and how to tell that the call is still the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ArgumentRequest {
    /// One; of a `select`, of each set that it has.
    pub(crate) addresses: Vec<u64>,
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
    /// Sets of so many descriptors.
    Selected(usize),
    /// So many `struct futex_waitv`.
    Waited(usize),
}

impl Kind {
    /// What a gap calls it.
    pub(super) fn part(self) -> &'static str {
        match self {
            Self::Path => "ipc/path",
            Self::Polled(_) | Self::Selected(_) => "ipc/poll",
            Self::Waited(_) => "ipc/futex",
        }
    }
}

/// What it pointed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Argument {
    Path(String),
    /// Of a `poll` or `select`.
    Polled(Vec<i32>),
    /// The `struct futex_waitv`, and the words that they name as far as these could be read.
    Waited(Vec<u8>, Vec<Option<Words>>),
}

/// Returns what to ask of the threads of `process`.
pub(super) fn wanted(process: &Process) -> Vec<ArgumentRequest> {
    let threads = process.proc.threads.iter();
    threads.filter_map(request).take(MOST_THREADS).collect()
}

/// What to ask of `thread`.
pub(super) fn request(thread: &Thread) -> Option<ArgumentRequest> {
    let call = thread.call.as_ref()?;
    let name = call.name.as_str();
    let count = |at: usize, most: u32| usize::try_from(narrow_argument(thread, at)?.min(most)).ok();
    let mut addresses = Vec::new();
    let kind = match name {
        "poll" | "ppoll" | "ppoll_time64" => {
            addresses.extend(argument(thread, 0));
            Kind::Polled(count(1, MOST_POLLED)?)
        }
        // The old one of 32-bit x86 has all its arguments behind a pointer, so that `call` tells no timeout.
        "select" if call.timeout.is_none() => return None,
        "select" | "_newselect" | "pselect6" | "pselect6_time64" => {
            let sets = (SETS..SETS + 3).filter_map(|at| argument(thread, at));
            addresses.extend(sets.filter(|&address| address != 0));
            Kind::Selected(count(0, MOST_SELECTED)?)
        }
        "futex_waitv" => {
            addresses.extend(argument(thread, 0));
            Kind::Waited(count(1, MOST_WAITED)?)
        }
        _ => {
            let at = CALLS.binary_search_by_key(&name, |(name, _)| name).ok()?;
            addresses.extend(argument(thread, CALLS[at].1));
            Kind::Path
        }
    };
    (!addresses.is_empty()).then(|| ArgumentRequest {
        addresses,
        call: thread.syscall.clone().unwrap_or_default(),
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

/// Returns the descriptors below `count` in the set of a `select`: a bit for each from 0 on. The lowest byte of a number comes first on
/// all machines that we run on, so it does not matter how long its numbers are.
pub(crate) fn selected(set: &[u8], count: usize) -> Vec<i32> {
    let is_in = |fd: usize| {
        set.get(fd / 8)
            .is_some_and(|byte| byte >> (fd % 8) & 1 != 0)
    };
    let fds = (0..count)
        .filter(|&fd| is_in(fd))
        .take(MOST_POLLED as usize);
    fds.filter_map(|fd| i32::try_from(fd).ok()).collect()
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
    use model::{CallTimeout, SystemCall};

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
        assert_eq!((request.addresses, request.tid), (vec![0x7f10], 7));
        assert_eq!(request.call, line);
        let open = super::request(&thread("open", "2 0x7f20 0x0")).unwrap();
        assert_eq!(open.addresses, [0x7f20]);
        assert!(super::request(&thread("read", line)).is_none());
        assert!(super::request(&thread("openat", "running")).is_none());
        let poll = super::request(&thread("poll", "7 0x7f30 0x3 0xffffffff")).unwrap();
        assert_eq!((poll.addresses, poll.kind), (vec![0x7f30], Kind::Polled(3)));
        let many = super::request(&thread("ppoll", "271 0x7f30 0xffffffff")).unwrap();
        assert_eq!(many.kind, Kind::Polled(256));
    }

    #[test]
    fn a_select_has_up_to_three_sets_and_a_vector_of_futexes_is_one_list() {
        let mut select = thread("select", "23 0x6 0x7f10 0x0 0x7f20 0x0");
        assert!(
            request(&select).is_none(),
            "of old programs, all is elsewhere"
        );
        select.call.as_mut().unwrap().timeout = Some(CallTimeout::Infinite);
        let sets = request(&select).unwrap();
        let expected = (vec![0x7f10, 0x7f20], Kind::Selected(6));
        assert_eq!((sets.addresses, sets.kind), expected);
        let sleep = thread("pselect6", "270 0x0 0x0 0x0 0x0 0x7f30");
        assert!(request(&sleep).is_none());
        let vector = request(&thread("futex_waitv", "449 0x7f40 0x2 0x0 0x0 0x1")).unwrap();
        assert_eq!(
            (vector.addresses, vector.kind),
            (vec![0x7f40], Kind::Waited(2))
        );
    }

    #[test]
    fn a_set_has_a_bit_for_each_descriptor_that_is_waited_for() {
        let set = [0b1000_0001, 0b10];
        assert_eq!(selected(&set, 10), [0, 7, 9]);
        assert_eq!(selected(&set, 9), [0, 7]);
        assert_eq!(selected(&set, 1024), [0, 7, 9], "there is no more of it");
        assert_eq!(selected(&[0xff; 128], 1024).len(), 256);
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
