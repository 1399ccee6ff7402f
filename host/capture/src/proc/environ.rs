//! `/proc/PID/environ`: `NAME=value` entries as they were at exec time, each ended by a NUL.

/// More than this of an environment is not read.
pub(crate) const LIMIT: usize = 4 << 20;

/// Returns names and values in order; entries without `=` are left out.
pub(crate) fn entries(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    bytes.split(|&byte| byte == 0).filter_map(|entry| {
        let equals = entry.iter().position(|&byte| byte == b'=')?;
        Some((&entry[..equals], &entry[equals + 1..]))
    })
}

/// Whether the process wrote its title over the place where the environment was, as setproctitle does.
pub(crate) fn is_overwritten(bytes: &[u8]) -> bool {
    // Behind a title that holds a `=` itself, the rest of the place is filled with NULs.
    !bytes.is_empty() && (entries(bytes).next().is_none() || bytes.ends_with(&[0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_hold_equals_signs_and_newlines() {
        let seen: Vec<_> = entries(b"RANK=7\0A=b=c\nd\0nonsense\0E=\0").collect();
        assert_eq!(
            seen,
            [
                (b"RANK".as_slice(), b"7".as_slice()),
                (b"A", b"b=c\nd"),
                (b"E", b"")
            ]
        );
    }

    #[test]
    fn an_overwritten_environment_is_told_from_an_empty_one() {
        assert!(is_overwritten(b"\0\0\0\0"));
        assert!(!is_overwritten(b""));
        assert!(!is_overwritten(b"A=1\0"));
        assert!(is_overwritten(b"worker rank=3\0\0\0\0\0"));
        assert!(
            !is_overwritten(b"A=1\0\0"),
            "an empty entry is odd, but one"
        );
    }
}
