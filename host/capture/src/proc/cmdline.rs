//! `/proc/PID/cmdline`: arguments, each ended by a NUL.

/// More than this of a command line is not read.
pub(crate) const LIMIT: usize = 4 << 20;

/// Returns the arguments; trailing NULs end nothing, and bytes that are not UTF-8 are U+FFFD.
pub(crate) fn arguments(bytes: &[u8]) -> Vec<String> {
    let end = bytes.iter().rposition(|&byte| byte != 0);
    let Some(end) = end else { return Vec::new() };
    let mut arguments: Vec<String> = bytes[..=end]
        .split(|&byte| byte == 0)
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect();
    if let [title] = arguments.as_mut_slice() {
        // A title that was written over the arguments is padded with blanks to their length.
        title.truncate(title.trim_end_matches(' ').len());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_arguments_in_the_middle_stay() {
        assert_eq!(
            arguments(b"python\0-c\0\0x y\0"),
            ["python", "-c", "", "x y"]
        );
    }

    #[test]
    fn a_zombie_has_none() {
        assert_eq!(arguments(b""), [""; 0]);
        assert_eq!(arguments(b"\0\0\0"), [""; 0]);
    }

    #[test]
    fn the_padding_of_a_title_is_trimmed() {
        assert_eq!(arguments(b"ray::IDLE\0\0\0\0\0"), ["ray::IDLE"]);
        assert_eq!(arguments(b"postgres: writer      \0"), ["postgres: writer"]);
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced() {
        assert_eq!(arguments(b"a\xffb\0"), ["a\u{fffd}b"]);
    }
}
