//! The system call that a thread waits in, in words.

use serde::{Deserialize, Serialize};

/// A system call with those of its arguments that explain a wait, decoded from `/proc/PID/task/TID/syscall` (kernel:
/// `fs/proc/base.c`, `proc_pid_syscall`). Of what its arguments point to, in the memory of the target, only paths and the
/// descriptors of a `poll` or `select` are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemCall {
    /// The address it waits on, hexadecimal: the futex word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The descriptor it works on; -100 (`AT_FDCWD`) is the working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fd: Option<i32>,
    /// The target of that descriptor in `file_descriptors`; absent where it is not listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fd_target: Option<String>,
    /// The descriptors that a `poll`, `ppoll`, `select` or `pselect6` waits for, at most 256; of the latter two those below 1024. Read from the memory of the process while the thread
    /// waited in this call. Empty for other calls, where a gap `ipc/poll` says why, and if the thread has gone on since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fds: Vec<i32>,
    /// Its name, such as `futex`.
    pub name: String,
    /// What it is to do there, by the kernel's constants: `FUTEX_WAIT_BITSET_PRIVATE`, `F_SETLKW`, `LOCK_EX`, `O_RDONLY`,
    /// `CLOCK_MONOTONIC`, the request of an ioctl in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The file it is about, for calls that take a path, such as `openat` and `stat`; a relative one begins at `fd_target`, or
    /// at the working directory. Read from the memory of the process while the thread waited in this call. Absent where a
    /// gap `ipc/path` says why, or the thread has gone on since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether it ends by itself, for calls that take a timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<CallTimeout>,
    /// The timeout, milliseconds, where it is an argument and not behind a pointer (poll, `epoll_wait`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
    /// Whom it waits for, as in `waitpid(2)`: a PID, -1 for any child, 0 for any of its own process group, or a negative process
    /// group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<i32>,
}

/// Whether a waiting system call ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallTimeout {
    /// It waits for ever.
    Infinite,
    /// It has a timeout.
    Set,
}
