//! Which file a thread waits for that is in a call by name, such as the `openat` of a FIFO without a writer, or the `stat`
//! of a file on a server that does not answer: no descriptor names it yet, the memory of the target does.

use std::collections::BTreeMap;

use model::{Process, ProcessId, Thread};

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

/// Where the path of a call is, and how to tell that the call is still the same.
#[derive(Debug)]
pub(super) struct PathRequest {
    pub(super) address: u64,
    /// What `/proc/PID/task/TID/syscall` said.
    pub(super) call: String,
    pub(super) tid: i32,
}

/// Returns what to ask of the threads of `process`.
pub(super) fn wanted(process: &Process) -> Vec<PathRequest> {
    let threads = process.proc.threads.iter();
    threads.filter_map(request).take(MOST_THREADS).collect()
}

fn request(thread: &Thread) -> Option<PathRequest> {
    let line = thread.syscall.as_ref()?;
    let name = thread.call.as_ref()?.name.as_str();
    let at = CALLS.binary_search_by_key(&name, |(name, _)| name).ok()?;
    let word = line.split_ascii_whitespace().nth(1 + CALLS[at].1)?;
    let address = u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()?;
    Some(PathRequest {
        address,
        call: line.clone(),
        tid: thread.tid,
    })
}

/// Puts the paths to the calls.
pub(super) fn complete(processes: &mut [Process], mut paths: BTreeMap<(ProcessId, i32), String>) {
    for process in processes {
        for thread in &mut process.proc.threads {
            let path = paths.remove(&(process.identity, thread.tid));
            if let (Some(path), Some(call)) = (path, &mut thread.call) {
                call.path = Some(path);
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
    }

    #[test]
    fn the_list_can_be_searched() {
        assert!(CALLS.is_sorted());
    }
}
