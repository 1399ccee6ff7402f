//! The kernel's names for what a call is to do.

const CLOCKS: [&str; 12] = [
    "CLOCK_REALTIME",
    "CLOCK_MONOTONIC",
    "CLOCK_PROCESS_CPUTIME_ID",
    "CLOCK_THREAD_CPUTIME_ID",
    "CLOCK_MONOTONIC_RAW",
    "CLOCK_REALTIME_COARSE",
    "CLOCK_MONOTONIC_COARSE",
    "CLOCK_BOOTTIME",
    "CLOCK_REALTIME_ALARM",
    "CLOCK_BOOTTIME_ALARM",
    "CLOCK_SGI_CYCLE",
    "CLOCK_TAI",
];

const FUTEX: [&str; 14] = [
    "FUTEX_WAIT",
    "FUTEX_WAKE",
    "FUTEX_FD",
    "FUTEX_REQUEUE",
    "FUTEX_CMP_REQUEUE",
    "FUTEX_WAKE_OP",
    "FUTEX_LOCK_PI",
    "FUTEX_UNLOCK_PI",
    "FUTEX_TRYLOCK_PI",
    "FUTEX_WAIT_BITSET",
    "FUTEX_WAKE_BITSET",
    "FUTEX_WAIT_REQUEUE_PI",
    "FUTEX_CMP_REQUEUE_PI",
    "FUTEX_LOCK_PI2",
];

const FUTEX_PRIVATE: u32 = 128;
const FUTEX_CLOCK_REALTIME: u32 = 256;

/// Calls whose first argument is the descriptor they work on, and that can wait there.
const ON_FIRST_DESCRIPTOR: [&str; 59] = [
    "accept",
    "accept4",
    "close",
    "connect",
    "copy_file_range",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "fallocate",
    "fchmod",
    "fchown",
    "fcntl",
    "fcntl64",
    "fdatasync",
    "flock",
    "fstat",
    "fstat64",
    "fstatfs",
    "fsync",
    "ftruncate",
    "getdents",
    "getdents64",
    "io_uring_enter",
    "ioctl",
    "lseek",
    "mkdirat",
    "mq_timedreceive",
    "mq_timedsend",
    "newfstatat",
    "openat",
    "openat2",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readahead",
    "readlinkat",
    "readv",
    "recv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "renameat",
    "renameat2",
    "send",
    "sendfile",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "splice",
    "statx",
    "sync_file_range",
    "syncfs",
    "unlinkat",
    "write",
    "writev",
];

/// Whether the first argument of the call is a descriptor that explains a wait.
pub(super) fn works_on_first_descriptor(name: &str) -> bool {
    ON_FIRST_DESCRIPTOR.binary_search(&name).is_ok()
}

/// Returns the name of a futex operation with its flags.
pub(super) fn futex(operation: u32) -> String {
    let command = futex_command(operation);
    let known = usize::try_from(command)
        .ok()
        .and_then(|command| FUTEX.get(command));
    let mut name = known.map_or_else(|| command.to_string(), |&name| name.to_owned());
    if operation & FUTEX_PRIVATE != 0 {
        name.push_str("_PRIVATE");
    }
    if operation & FUTEX_CLOCK_REALTIME != 0 {
        name.push_str("|FUTEX_CLOCK_REALTIME");
    }
    name
}

/// Whether the operation waits, and so may have a timeout.
pub(super) fn futex_waits(operation: u32) -> bool {
    matches!(futex_command(operation), 0 | 6 | 9 | 11 | 13)
}

fn futex_command(operation: u32) -> u32 {
    operation & !(FUTEX_PRIVATE | FUTEX_CLOCK_REALTIME)
}

/// Returns the name of a `fcntl(2)` command.
pub(super) fn fcntl(command: u32) -> String {
    let name = match command {
        0 => "F_DUPFD",
        1 => "F_GETFD",
        2 => "F_SETFD",
        3 => "F_GETFL",
        4 => "F_SETFL",
        5 => "F_GETLK",
        6 => "F_SETLK",
        7 => "F_SETLKW",
        // Of 32-bit machines.
        12 => "F_GETLK64",
        13 => "F_SETLK64",
        14 => "F_SETLKW64",
        36 => "F_OFD_GETLK",
        37 => "F_OFD_SETLK",
        38 => "F_OFD_SETLKW",
        1024 => "F_SETLEASE",
        1025 => "F_GETLEASE",
        1030 => "F_DUPFD_CLOEXEC",
        1031 => "F_SETPIPE_SZ",
        1032 => "F_GETPIPE_SZ",
        1033 => "F_ADD_SEALS",
        1034 => "F_GET_SEALS",
        _ => return command.to_string(),
    };
    name.to_owned()
}

/// Returns the names of a `flock(2)` operation.
pub(super) fn flock(operation: u32) -> String {
    let name = match operation & !4 {
        1 => "LOCK_SH",
        2 => "LOCK_EX",
        8 => "LOCK_UN",
        _ => return operation.to_string(),
    };
    let flag = if operation & 4 == 0 { "" } else { "|LOCK_NB" };
    format!("{name}{flag}")
}

/// Returns the access mode of an `open(2)`.
pub(super) fn open(flags: u32) -> String {
    let name = match flags & 3 {
        0 => "O_RDONLY",
        1 => "O_WRONLY",
        2 => "O_RDWR",
        _ => return flags.to_string(),
    };
    name.to_owned()
}

/// Returns the clock of a sleep, and whether it sleeps until a time instead of for one.
pub(super) fn sleep(clock: i32, flags: u32) -> String {
    let known = usize::try_from(clock)
        .ok()
        .and_then(|clock| CLOCKS.get(clock));
    let name = known.map_or_else(|| clock.to_string(), |&name| name.to_owned());
    let flag = if flags & 1 == 0 { "" } else { "|TIMER_ABSTIME" };
    format!("{name}{flag}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_searched() {
        assert!(ON_FIRST_DESCRIPTOR.is_sorted());
        assert!(works_on_first_descriptor("read") && !works_on_first_descriptor("poll"));
    }

    #[test]
    fn flags_are_told_from_commands() {
        assert_eq!(futex(0), "FUTEX_WAIT");
        assert_eq!(futex(393), "FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME");
        assert_eq!(futex(141), "FUTEX_LOCK_PI2_PRIVATE");
        assert_eq!(futex(77), "77");
        assert!(futex_waits(393) && futex_waits(6) && !futex_waits(129));
        assert_eq!(
            (flock(6), flock(1), flock(99)),
            (
                "LOCK_EX|LOCK_NB".to_owned(),
                "LOCK_SH".to_owned(),
                "99".to_owned()
            )
        );
        assert_eq!(
            (fcntl(7), fcntl(38), fcntl(99)),
            (
                "F_SETLKW".to_owned(),
                "F_OFD_SETLKW".to_owned(),
                "99".to_owned()
            )
        );
        assert_eq!(
            (open(0o2_000_000), open(0o101)),
            ("O_RDONLY".to_owned(), "O_WRONLY".to_owned())
        );
        assert_eq!(sleep(1, 1), "CLOCK_MONOTONIC|TIMER_ABSTIME");
        assert_eq!(sleep(-6, 0), "-6");
    }
}
