//! `/proc/PID/stat` and `/proc/PID/task/TID/stat`, `proc_pid_stat(5)`.

/// The `PF_KTHREAD` bit of the flags.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// What we keep of a `stat` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: i32,
    /// The name as the line has it: since Linux 4.18 a newline is `\n` and a backslash `\\`.
    pub(crate) comm: Vec<u8>,
    pub(crate) state: char,
    pub(crate) ppid: i32,
    pub(crate) kernel_thread: bool,
    pub(crate) utime_ticks: u64,
    pub(crate) stime_ticks: u64,
    pub(crate) cutime_ticks: u64,
    pub(crate) cstime_ticks: u64,
    pub(crate) threads: u64,
    pub(crate) start_time_ticks: u64,
}

/// Parses the line. The name may hold anything, `) R 1 (` too: it ends at the last `)`.
pub(crate) fn parse(bytes: &[u8]) -> Option<Stat> {
    let open = bytes.iter().position(|&byte| byte == b'(')?;
    let close = bytes.iter().rposition(|&byte| byte == b')')?;
    let comm = bytes.get(open + 1..close)?.to_vec();
    let rest = std::str::from_utf8(&bytes[close + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // `fields[0]` is field 3 of the manual page.
    let field = |number: usize| fields.get(number - 3).copied();
    let ticks = |number: usize| field(number)?.parse::<u64>().ok();
    Some(Stat {
        pid: number(&bytes[..open])?,
        comm,
        state: field(3)?.chars().next()?,
        ppid: field(4)?.parse().ok()?,
        kernel_thread: ticks(9)? & KERNEL_THREAD != 0,
        utime_ticks: ticks(14)?,
        stime_ticks: ticks(15)?,
        // Signed in the kernel's format string.
        cutime_ticks: ticks(16).unwrap_or(0),
        cstime_ticks: ticks(17).unwrap_or(0),
        threads: ticks(20)?,
        start_time_ticks: ticks(22)?,
    })
}

fn number(bytes: &[u8]) -> Option<i32> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TAIL: &[u8] =
        b" S 4242 4711 4711 34816 4711 4194304 120 0 3 0 17 5 2 1 20 0 9 0 56786 12 34 0";

    fn line(comm: &[u8]) -> Vec<u8> {
        [b"4711 (", comm, b")", TAIL].concat()
    }

    #[test]
    fn a_real_line_is_read() {
        let stat = parse(b"1 (systemd) S 0 1 1 0 -1 4194560 12840 906498 84 518 95 162 1841 834 20 0 1 0 9 172306432 3239 18446744073709551615 1 1 0 0 0 0 671173123 4096 1260 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n").unwrap();
        assert_eq!((stat.pid, stat.state, stat.ppid), (1, 'S', 0));
        assert_eq!((stat.utime_ticks, stat.stime_ticks), (95, 162));
        assert_eq!((stat.cutime_ticks, stat.cstime_ticks), (1841, 834));
        assert_eq!((stat.threads, stat.start_time_ticks), (1, 9));
        assert!(!stat.kernel_thread);
    }

    #[test]
    fn a_name_that_looks_like_the_rest_of_the_line_changes_nothing() {
        for comm in [
            b"a) R 1\n\xff(x".as_slice(),
            b")",
            b"",
            b"(sd-pam)",
            b") Z 1 1 1 1 1",
        ] {
            let stat = parse(&line(comm)).unwrap();
            assert_eq!(stat.comm, comm);
            assert_eq!((stat.state, stat.ppid), ('S', 4242));
            assert_eq!(stat.start_time_ticks, 56_786);
        }
    }

    #[test]
    fn kernel_threads_are_known_by_their_flag() {
        let stat = parse(b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 1 0 0 20 0 1 0 9 0 0 18446744073709551615 0 0").unwrap();
        assert!(stat.kernel_thread);
    }

    #[test]
    fn cut_and_empty_lines_are_refused() {
        for bytes in [
            b"".as_slice(),
            b"12",
            b"12 (a",
            b"12 (a) S 1",
            b")(",
            b"x (a) S 1",
        ] {
            assert_eq!(parse(bytes), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn every_name_comes_back(comm in proptest::collection::vec(any::<u8>(), 0..20)) {
            prop_assert_eq!(parse(&line(&comm)).map(|stat| stat.comm), Some(comm));
        }
    }
}
