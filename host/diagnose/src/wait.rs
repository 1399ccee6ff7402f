//! What a thread waits for, from its system call, where the kernel has it, and its Python stack.

use model::{CallTimeout, Process, SystemCall, Thread, Trace};

use crate::case::main_thread;
use crate::python::{self, Wants};

/// What a thread waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It runs, or could.
    Running,
    /// It waits, and what for is not known.
    Unknown,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// Frozen with its cgroup.
    Frozen,
    /// For memory, at the limit of its cgroup.
    Memory,
    /// In the kernel where no signal reaches it, or in a file system's own wait.
    Storage,
    /// For a time.
    Sleep,
    /// For a word of memory.
    Futex {
        address: String,
        is_timed: bool,
        is_private: bool,
    },
    /// For something to read.
    Read { target: String, fd: i32 },
    /// For room to write.
    Write { target: String, fd: i32 },
    /// For any of several descriptors.
    Poll { fds: Vec<i32>, is_timed: bool },
    /// For events of descriptors that it registered.
    Epoll { fd: i32, is_timed: bool },
    /// For a connection that it asked for.
    Connect { target: String },
    /// For somebody who connects.
    Accept { target: String },
    /// For somebody at the other end of a FIFO.
    OpenFifo { path: String },
    /// For a lock on a file.
    FileLock,
    /// For a child: its PID; -1 for any, and others as in waitpid(2).
    Child { pid: i32 },
    /// For a signal.
    Signal,
}

impl Wait {
    /// Whether it ends when a time has come, if not before.
    pub(crate) fn is_for_a_time(&self) -> bool {
        matches!(
            self,
            Self::Sleep | Self::Poll { is_timed: true, .. } | Self::Epoll { is_timed: true, .. }
        )
    }
}

/// Returns what the main thread of a process waits for, and the thread that does: where the main thread waits for another thread
/// of Python to end or to give a result, it is that one's wait that counts.
pub(crate) fn of_main(process: &Process) -> (Wait, i32) {
    match process.state {
        'T' | 't' => return (Wait::Stopped, process.pid),
        'Z' | 'X' => return (Wait::Unknown, process.pid),
        _ => {}
    }
    let wait = main_thread(process).map_or(Wait::Unknown, of);
    match joined(process) {
        Some(thread) if matches!(wait, Wait::Futex { .. }) => (of(thread), thread.tid),
        _ => (wait, process.pid),
    }
}

/// The thread of Python whose end or result the main thread waits for: the only other one, or the only one that does not wait for
/// work itself; of several that all read, the first.
fn joined(process: &Process) -> Option<&Thread> {
    let traces = &process.pyspy.as_ref()?.traces;
    let main = python::main_trace(process)?;
    let wants_its_end = python::wants(&main.frames) == Some(Wants::Thread);
    if !wants_its_end && !python::is_at_result(&main.frames) {
        return None;
    }
    let others = traces
        .iter()
        .filter(|trace| trace.os_thread_id != main.os_thread_id);
    let thread = |trace: &Trace| {
        let tid = i32::try_from(trace.os_thread_id?).ok()?;
        process.proc.threads.iter().find(|thread| thread.tid == tid)
    };
    let threads = others.filter_map(|trace| Some((trace, thread(trace)?)));
    let threads: Vec<(&Trace, &Thread)> = threads.collect();
    if let ([(_, only)], true) = (threads.as_slice(), wants_its_end) {
        return Some(only);
    }
    let is_idle = |trace: &Trace, thread: &Thread| {
        matches!(of(thread), Wait::Futex { .. })
            && python::wants(&trace.frames) == Some(Wants::Notice)
    };
    let busy = threads
        .into_iter()
        .filter(|(trace, thread)| !is_idle(trace, thread));
    let busy: Vec<&Thread> = busy.map(|(_, thread)| thread).collect();
    let all_read = busy
        .iter()
        .all(|thread| matches!(of(thread), Wait::Read { .. }));
    (busy.len() == 1 || all_read).then(|| busy.first().copied())?
}

/// Returns what a thread waits for.
pub(crate) fn of(thread: &Thread) -> Wait {
    match thread.state {
        Some('T' | 't') => return Wait::Stopped,
        Some('R') => return Wait::Running,
        _ => {}
    }
    if is_storage(thread) {
        return Wait::Storage;
    }
    if is_frozen(thread) {
        return Wait::Frozen;
    }
    let wchan = thread.wchan.as_deref();
    if wchan.is_some_and(|it| it.starts_with("mem_cgroup_")) {
        return Wait::Memory;
    }
    thread
        .call
        .as_ref()
        .map_or(Wait::Unknown, |call| of_call(call, thread))
}

/// Where a frozen thread is (`kernel/freezer.c`, `kernel/signal.c`), by how the names begin.
const FREEZER: [&str; 2] = ["__refrigerator", "do_freezer_trap"];
/// Waits that a signal may end (`TASK_INTERRUPTIBLE`), so that nobody is in state D there but who was frozen in them.
const INTERRUPTIBLE: [&str; 14] = [
    "hrtimer_nanosleep",
    "do_nanosleep",
    "futex_do_wait",
    "futex_wait",
    "do_poll",
    "poll_schedule_timeout",
    "do_select",
    "ep_poll",
    "do_wait",
    "pipe_read",
    "anon_pipe_read",
    "do_sigtimedwait",
    "sigsuspend",
    "inet_csk_accept",
];

/// Whether a thread was frozen: by a cgroup of version 2, or of version 1 since Linux 6.1 (`TASK_FROZEN`, shown as D) or before.
fn is_frozen(thread: &Thread) -> bool {
    let begins = |names: &[&str]| {
        let wchan = thread.wchan.as_deref();
        wchan.is_some_and(|it| names.iter().any(|name| it.starts_with(name)))
    };
    begins(&FREEZER) || (thread.state == Some('D') && begins(&INTERRUPTIBLE))
}

/// Kernel functions that wait for a file system or a disk, by how their names begin: FUSE (`fs/fuse/dev.c`), NFS and its RPC
/// (`net/sunrpc/sched.c`), SMB (`fs/smb/client/transport.c`), Ceph, Lustre, and pages and blocks of the kernel's own.
const STORAGE: [&str; 22] = [
    "request_wait_answer",
    "fuse_",
    "__fuse_",
    "nfs_",
    "nfs4_",
    "rpc_wait",
    "__rpc_",
    "rpc_",
    "cifs_",
    "smb2_",
    "wait_for_response",
    "ceph_",
    "ll_",
    "cl_sync_io_wait",
    "ptlrpc_",
    "folio_wait",
    "wait_on_page",
    "io_schedule",
    "blk_",
    "jbd2_",
    "autofs_",
    "p9_client_rpc",
];

fn is_storage(thread: &Thread) -> bool {
    let named = |function: &str| STORAGE.iter().any(|start| function.starts_with(start));
    let waits = thread.wchan.as_deref().is_some_and(named);
    // Without the name, the kernel stack tells; a D state alone is also that of vfork and of a coredump.
    let in_stack = || {
        let mut lines = thread.kernel_stack.iter();
        lines.any(|line| named(line.split_whitespace().last().unwrap_or_default()))
    };
    waits || (thread.state == Some('D') && in_stack())
}

fn of_call(call: &SystemCall, thread: &Thread) -> Wait {
    let target = || call.fd_target.clone().unwrap_or_default();
    let fd = call.fd.unwrap_or(-1);
    let is_timed = call.timeout == Some(CallTimeout::Set);
    match call.name.as_str() {
        "nanosleep" | "clock_nanosleep" => Wait::Sleep,
        "futex" | "futex_wait" | "futex_waitv" => Wait::Futex {
            address: call.address.clone().unwrap_or_default(),
            is_timed,
            is_private: call
                .operation
                .as_deref()
                .is_some_and(|it| it.contains("PRIVATE")),
        },
        "read" | "readv" | "pread64" | "recvfrom" | "recvmsg" | "recvmmsg" | "recv" => Wait::Read {
            target: target(),
            fd,
        },
        "write" | "writev" | "pwrite64" | "sendto" | "sendmsg" | "sendmmsg" | "send" => {
            Wait::Write {
                target: target(),
                fd,
            }
        }
        "poll" | "ppoll" | "select" | "pselect6" | "_newselect" => {
            if call.fds.is_empty() && is_timed {
                Wait::Sleep
            } else {
                Wait::Poll {
                    fds: call.fds.clone(),
                    is_timed,
                }
            }
        }
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => Wait::Epoll { fd, is_timed },
        "connect" => Wait::Connect { target: target() },
        "accept" | "accept4" => Wait::Accept { target: target() },
        "open" | "openat" | "openat2" => {
            let waits_for_partner = thread.wchan.as_deref().is_some_and(|it| {
                it.starts_with("wait_for_partner") || it.starts_with("fifo_open")
            });
            match &call.path {
                Some(path) if waits_for_partner => Wait::OpenFifo { path: path.clone() },
                _ => Wait::Unknown,
            }
        }
        "flock" => Wait::FileLock,
        "fcntl" | "fcntl64"
            if call
                .operation
                .as_deref()
                .is_some_and(|it| it.contains("SETLKW")) =>
        {
            Wait::FileLock
        }
        "wait4" | "waitid" | "waitpid" => Wait::Child {
            pid: call.waits_for.unwrap_or(-1),
        },
        "pause" | "rt_sigsuspend" | "rt_sigtimedwait" | "sigsuspend" => Wait::Signal,
        _ => Wait::Unknown,
    }
}
