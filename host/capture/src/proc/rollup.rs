//! `/proc/PID/smaps_rollup`: what a process's share of its memory is. The kernel walks every page under the mmap lock to write it.

use super::status::kibibytes;

/// Memory by its share, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rollup {
    pub(crate) pss_bytes: u64,
    pub(crate) uss_bytes: u64,
}

/// Parses the file; nothing where a line that is needed is not there.
pub(crate) fn parse(bytes: &[u8]) -> Option<Rollup> {
    let text = String::from_utf8_lossy(bytes);
    let value = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| kibibytes(line.strip_prefix(name)?.strip_prefix(':')?.trim_start()))
    };
    let private = value("Private_Clean")?.checked_add(value("Private_Dirty")?)?;
    Some(Rollup {
        pss_bytes: value("Pss")?,
        uss_bytes: private.checked_add(value("Private_Hugetlb").unwrap_or(0))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REAL: &[u8] = b"55d0a0000000-7ffd3a1c5000 ---p 00000000 00:00 0                          [rollup]\nRss:                9876 kB\nPss:                4321 kB\nPss_Dirty:          3000 kB\nPss_Anon:           3000 kB\nShared_Clean:       5000 kB\nShared_Dirty:          0 kB\nPrivate_Clean:       876 kB\nPrivate_Dirty:      3000 kB\nAnonymous:          3000 kB\nShared_Hugetlb:        0 kB\nPrivate_Hugetlb:    2048 kB\nSwap:                  0 kB\n";

    #[test]
    fn the_share_and_what_is_private_are_in_bytes() {
        let rollup = parse(REAL).unwrap();
        assert_eq!(rollup.pss_bytes, 4321 << 10);
        assert_eq!(rollup.uss_bytes, (876 + 3000 + 2048) << 10);
    }

    #[test]
    fn a_file_that_lacks_a_line_says_nothing() {
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"Pss: 4 kB\nPrivate_Clean: 4 kB\n"), None);
        assert_eq!(
            parse(b"Pss: 4\nPrivate_Clean: 4 kB\nPrivate_Dirty: 0 kB\n"),
            None
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
