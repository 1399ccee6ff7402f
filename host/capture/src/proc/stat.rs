//! `/proc/PID/stat` and `/proc/PID/task/TID/stat`, `proc_pid_stat(5)`.

use model::{Scheduling, SchedulingPolicy};

/// The `PF_KTHREAD` bit of the flags.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The `PF_EXITING` bit of the flags.
const EXITING: u64 = 0x0000_0004;

/// The last field that we look at.
const LAST_FIELD: usize = 52;

/// What we keep of a `stat` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: i32,
    /// The name as the line has it: since Linux 4.18 a newline is `\n` and a backslash `\\`.
    pub(crate) comm: Vec<u8>,
    pub(crate) state: char,
    pub(crate) ppid: i32,
    pub(crate) group: Option<i32>,
    pub(crate) session: Option<i32>,
    /// The device number of the controlling terminal; 0 where there is none.
    pub(crate) terminal: Option<i32>,
    /// The foreground process group of the terminal; -1 where there is none.
    pub(crate) foreground_group: Option<i32>,
    pub(crate) kernel_thread: bool,
    /// Whether it is on its way out, which with much memory takes a while.
    pub(crate) exiting: bool,
    pub(crate) minor_faults: Option<u64>,
    pub(crate) child_minor_faults: Option<u64>,
    pub(crate) major_faults: Option<u64>,
    pub(crate) child_major_faults: Option<u64>,
    pub(crate) utime_ticks: u64,
    pub(crate) stime_ticks: u64,
    pub(crate) cutime_ticks: u64,
    pub(crate) cstime_ticks: u64,
    pub(crate) priority: Option<i64>,
    pub(crate) nice: Option<i64>,
    pub(crate) threads: u64,
    pub(crate) start_time_ticks: u64,
    pub(crate) rss_pages: Option<u64>,
    /// The bottom of the main thread's stack. Each exec chooses a new one; 0 for who may not look into the process.
    pub(crate) start_stack: u64,
    pub(crate) processor: Option<u32>,
    pub(crate) realtime_priority: Option<u32>,
    pub(crate) policy: Option<u32>,
    /// How it ended, as `waitpid(2)` would say it; 0 while it lives, and for who may not look into it.
    pub(crate) wait_status: Option<i32>,
}

impl Stat {
    /// Returns how the thread is scheduled.
    pub(crate) fn scheduling(&self) -> Option<Scheduling> {
        Some(Scheduling {
            nice: self.nice?,
            policy: policy(self.policy?),
            priority: self.priority?,
            realtime_priority: self.realtime_priority.filter(|&priority| priority > 0),
        })
    }
}

fn policy(number: u32) -> SchedulingPolicy {
    match number {
        0 => SchedulingPolicy::Other,
        1 => SchedulingPolicy::Fifo,
        2 => SchedulingPolicy::RoundRobin,
        3 => SchedulingPolicy::Batch,
        5 => SchedulingPolicy::Idle,
        6 => SchedulingPolicy::Deadline,
        7 => SchedulingPolicy::Extension,
        _ => SchedulingPolicy::Unknown,
    }
}

/// Parses the line. The name may hold anything, `) R 1 (` too: it ends at the last `)`.
pub(crate) fn parse(bytes: &[u8]) -> Option<Stat> {
    let open = bytes.iter().position(|&byte| byte == b'(')?;
    let close = bytes.iter().rposition(|&byte| byte == b')')?;
    let comm = bytes.get(open + 1..close)?.to_vec();
    let rest = std::str::from_utf8(&bytes[close + 1..]).ok()?;
    // `fields[0]` is field 3 of the manual page; what is not there is empty, and no number.
    let mut fields = [""; LAST_FIELD - 2];
    for (field, word) in fields.iter_mut().zip(rest.split_ascii_whitespace()) {
        *field = word;
    }
    let field = |number: usize| fields.get(number - 3).copied();
    let ticks = |number: usize| field(number)?.parse::<u64>().ok();
    let signed = |number: usize| field(number)?.parse::<i32>().ok();
    let small = |number: usize| field(number)?.parse::<u32>().ok();
    Some(Stat {
        pid: number(&bytes[..open])?,
        comm,
        state: field(3)?.chars().next()?,
        ppid: field(4)?.parse().ok()?,
        group: signed(5),
        session: signed(6),
        terminal: signed(7),
        foreground_group: signed(8),
        kernel_thread: ticks(9)? & KERNEL_THREAD != 0,
        exiting: ticks(9)? & EXITING != 0,
        minor_faults: ticks(10),
        child_minor_faults: ticks(11),
        major_faults: ticks(12),
        child_major_faults: ticks(13),
        utime_ticks: ticks(14)?,
        stime_ticks: ticks(15)?,
        // Signed in the kernel's format string.
        cutime_ticks: ticks(16).unwrap_or(0),
        cstime_ticks: ticks(17).unwrap_or(0),
        priority: signed(18).map(i64::from),
        nice: signed(19).map(i64::from),
        threads: ticks(20)?,
        start_time_ticks: ticks(22)?,
        rss_pages: ticks(24),
        start_stack: ticks(28).unwrap_or(0),
        processor: small(39),
        realtime_priority: small(40),
        policy: small(41),
        wait_status: signed(52),
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
        assert_eq!((stat.group, stat.session), (Some(1), Some(1)));
        assert_eq!((stat.terminal, stat.foreground_group), (Some(0), Some(-1)));
        assert_eq!(
            (stat.minor_faults, stat.major_faults),
            (Some(12_840), Some(84))
        );
        assert_eq!(stat.child_minor_faults, Some(906_498));
        assert_eq!(stat.child_major_faults, Some(518));
        assert_eq!((stat.rss_pages, stat.start_stack), (Some(3239), 0));
        assert_eq!((stat.processor, stat.realtime_priority), (Some(1), Some(0)));
    }

    #[test]
    fn how_a_thread_is_scheduled_is_told_by_name() {
        let scheduling = |values: [(usize, &str); 4]| {
            let mut fields = vec!["0"; 50];
            fields[0] = "S";
            for (number, value) in values {
                fields[number - 3] = value;
            }
            let line = format!("7 (a) {}", fields.join(" "));
            parse(line.as_bytes()).unwrap().scheduling().unwrap()
        };
        let ordinary = scheduling([(18, "25"), (19, "5"), (40, "0"), (41, "0")]);
        assert_eq!((ordinary.nice, ordinary.priority), (5, 25));
        assert_eq!(
            (ordinary.policy, ordinary.realtime_priority),
            (SchedulingPolicy::Other, None)
        );
        let real_time = scheduling([(18, "-51"), (19, "0"), (40, "50"), (41, "1")]);
        assert_eq!(
            (real_time.policy, real_time.realtime_priority),
            (SchedulingPolicy::Fifo, Some(50))
        );
        assert_eq!(
            scheduling([(18, "20"), (19, "0"), (40, "0"), (41, "9")]).policy,
            SchedulingPolicy::Unknown
        );
        assert_eq!(parse(&line(b"cut")).unwrap().scheduling(), None);
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
