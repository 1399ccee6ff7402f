//! `/proc/PID/status`, `proc_pid_status(5)`: the lines that schema 1.0 keeps, and memory.

use std::collections::BTreeMap;

use model::{Credentials, MemoryFacts, SeccompMode};

const KEPT: [&str; 15] = [
    "Name",
    "State",
    "Tgid",
    "Pid",
    "PPid",
    "TracerPid",
    "Threads",
    "SigQ",
    "SigPnd",
    "ShdPnd",
    "SigBlk",
    "SigIgn",
    "SigCgt",
    "voluntary_ctxt_switches",
    "nonvoluntary_ctxt_switches",
];

/// What we keep of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) lines: BTreeMap<String, String>,
    pub(crate) allowed_cpus: Option<String>,
    pub(crate) core_dumping: Option<bool>,
    pub(crate) credentials: Option<Credentials>,
    /// Absent where the process has no memory of its own: zombies, kernel threads.
    pub(crate) memory: Option<MemoryFacts>,
}

/// Parses the file; lines that are not understood are left out.
pub(crate) fn parse(bytes: &[u8]) -> Status {
    let mut status = Status::default();
    let mut memory = MemoryFacts::default();
    let mut rss_bytes = None;
    let (mut users, mut groups) = (None, None);
    let mut credentials = Credentials::default();
    for line in bytes.split(|&byte| byte == b'\n') {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            continue;
        };
        let Ok(key) = std::str::from_utf8(&line[..colon]) else {
            continue;
        };
        let value = String::from_utf8_lossy(&line[colon + 1..]);
        let value = value.trim_matches([' ', '\t']);
        match key {
            "VmHWM" => memory.peak_rss_bytes = kibibytes(value),
            "VmRSS" => rss_bytes = kibibytes(value),
            "RssAnon" => memory.rss_anon_bytes = kibibytes(value),
            "RssFile" => memory.rss_file_bytes = kibibytes(value),
            "RssShmem" => memory.rss_shmem_bytes = kibibytes(value),
            "VmSwap" => memory.swap_bytes = kibibytes(value),
            "VmData" => memory.data_bytes = kibibytes(value),
            "HugetlbPages" => memory.hugetlb_bytes = kibibytes(value),
            "VmLck" => memory.locked_bytes = kibibytes(value),
            "VmPTE" => memory.page_table_bytes = kibibytes(value),
            "VmPin" => memory.pinned_bytes = kibibytes(value),
            "VmStk" => memory.stack_bytes = kibibytes(value),
            "VmSize" => memory.virtual_bytes = kibibytes(value),
            "Cpus_allowed_list" => status.allowed_cpus = Some(value.to_owned()),
            "CoreDumping" => status.core_dumping = flag(value),
            "Uid" => users = ids(value),
            "Gid" => groups = ids(value),
            "NoNewPrivs" => credentials.no_new_privs = flag(value),
            "Seccomp" => credentials.seccomp = Some(seccomp(value)),
            _ if KEPT.contains(&key) => {
                status.lines.insert(key.to_owned(), value.to_owned());
            }
            _ => {}
        }
    }
    if let (Some((real_uid, effective_uid)), Some((real_gid, effective_gid))) = (users, groups) {
        status.credentials = Some(Credentials {
            effective_gid,
            effective_uid,
            real_gid,
            real_uid,
            ..credentials
        });
    }
    status.memory = rss_bytes.map(|rss_bytes| MemoryFacts {
        rss_bytes,
        ..memory
    });
    status
}

fn flag(value: &str) -> Option<bool> {
    match value {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// Returns the real and the effective id.
fn ids(value: &str) -> Option<(u32, u32)> {
    let mut numbers = value.split_ascii_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn seccomp(value: &str) -> SeccompMode {
    match value {
        "0" => SeccompMode::Off,
        "1" => SeccompMode::Strict,
        "2" => SeccompMode::Filter,
        _ => SeccompMode::Unknown,
    }
}

/// Returns the bytes of a value such as `16 kB`; the kernel's kB are KiB.
pub(crate) fn kibibytes(value: &str) -> Option<u64> {
    let number: u64 = value.strip_suffix("kB")?.trim_end().parse().ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REAL: &[u8] = b"Name:\tpython3\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t4711\nNgid:\t0\nPid:\t4711\nPPid:\t4242\nTracerPid:\t0\nUid:\t0\t0\t0\t0\nVmPeak:\t   16084 kB\nVmHWM:\t   10012 kB\nVmRSS:\t    9876 kB\nRssAnon:\t    3456 kB\nRssFile:\t    6420 kB\nRssShmem:\t       0 kB\nVmSwap:\t       8 kB\nThreads:\t2\nSigQ:\t0/31337\nSigPnd:\t0000000000000000\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";

    #[test]
    fn schema_1_0_lines_are_kept_and_no_others() {
        let status = parse(REAL);
        assert_eq!(status.lines["State"], "S (sleeping)");
        assert_eq!(status.lines["voluntary_ctxt_switches"], "12");
        assert_eq!(status.lines.len(), 11);
        assert!(!status.lines.contains_key("Uid"));
    }

    #[test]
    fn memory_is_in_bytes() {
        let memory = parse(REAL).memory.unwrap();
        assert_eq!(memory.rss_bytes, 9876 * 1024);
        assert_eq!(memory.peak_rss_bytes, Some(10012 * 1024));
        assert_eq!(memory.rss_anon_bytes, Some(3456 * 1024));
        assert_eq!(memory.rss_file_bytes, Some(6420 * 1024));
        assert_eq!(memory.rss_shmem_bytes, Some(0));
        assert_eq!(memory.swap_bytes, Some(8 * 1024));
    }

    #[test]
    fn users_restrictions_and_processors_are_read() {
        let status = parse(b"Uid:\t1000\t0\t0\t0\nGid:\t100\t5\t5\t5\nVmSize:\t 16084 kB\nVmLck:\t 4 kB\nVmStk:\t132 kB\nVmRSS:\t8 kB\nCoreDumping:\t1\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8\n");
        let credentials = status.credentials.unwrap();
        assert_eq!((credentials.real_uid, credentials.effective_uid), (1000, 0));
        assert_eq!((credentials.real_gid, credentials.effective_gid), (100, 5));
        assert_eq!(credentials.no_new_privs, Some(true));
        assert_eq!(credentials.seccomp, Some(SeccompMode::Filter));
        assert_eq!(status.allowed_cpus.as_deref(), Some("0-3,8"));
        assert_eq!(status.core_dumping, Some(true));
        let memory = status.memory.unwrap();
        assert_eq!(memory.virtual_bytes, Some(16084 * 1024));
        assert_eq!(
            (memory.locked_bytes, memory.stack_bytes),
            (Some(4096), Some(132 << 10))
        );
        assert_eq!(memory.pinned_bytes, None);
    }

    #[test]
    fn ids_that_are_no_numbers_are_unknown_and_not_root() {
        assert_eq!(parse(b"Uid:\tx\t0\nGid:\t0\t0\n").credentials, None);
        assert_eq!(parse(b"Uid:\t7\nGid:\t0\t0\n").credentials, None);
        assert_eq!(parse(b"CoreDumping:\tmaybe\n").core_dumping, None);
    }

    #[test]
    fn a_zombie_has_no_memory() {
        assert_eq!(parse(b"Name:\tsleep\nState:\tZ (zombie)\n").memory, None);
    }

    #[test]
    fn names_with_colons_and_bytes_that_are_no_text_are_kept() {
        let status = parse(b"Name:\tab:c (x) \xff\nState:\tS (sleeping)\n");
        assert_eq!(status.lines["Name"], "ab:c (x) \u{fffd}");
        assert_eq!(status.lines["State"], "S (sleeping)");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
