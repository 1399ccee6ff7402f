//! `/proc/PID/task/TID/schedstat`, and the lines of `status` that count the same where a kernel keeps no `schedstat`.

/// Returns the nanoseconds on a processor, the nanoseconds of waiting for one, and how often it was given one. Nothing where
/// the kernel keeps none of them (booted without delay accounting, say): it then writes zeros for every thread.
pub(crate) fn parse(bytes: &[u8]) -> Option<[u64; 3]> {
    let mut words = std::str::from_utf8(bytes).ok()?.split_ascii_whitespace();
    let mut number = || words.next()?.parse().ok();
    let numbers = [number()?, number()?, number()?];
    (numbers != [0; 3]).then_some(numbers)
}

/// Returns how often it gave its processor up, and how often that was taken, from a `status` file.
pub(crate) fn switches(status: &[u8]) -> Option<[u64; 2]> {
    let count = |name: &[u8]| {
        let mut lines = status.split(|&byte| byte == b'\n');
        let value = lines.find_map(|line| line.strip_prefix(name))?;
        std::str::from_utf8(value).ok()?.trim().parse().ok()
    };
    Some([
        count(b"voluntary_ctxt_switches:")?,
        count(b"nonvoluntary_ctxt_switches:")?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_zeros_and_odd_lines_say_nothing() {
        assert_eq!(parse(b"220288793 0 52\n"), Some([220_288_793, 0, 52]));
        for line in [b"0 0 0\n".as_slice(), b"", b"1 2\n", b"1 2 x\n", b"\xff"] {
            assert_eq!(parse(line), None);
        }
    }

    #[test]
    fn both_kinds_of_switches_are_needed() {
        let status =
            b"Name:\ta\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n".as_slice();
        assert_eq!(switches(status), Some([12, 3]));
        assert_eq!(switches(b"voluntary_ctxt_switches:\t12\n"), None);
        assert_eq!(switches(b"nonvoluntary_ctxt_switches:\t3\n"), None);
    }
}
