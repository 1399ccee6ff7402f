//! Files that are kept as the kernel's own text: `wchan`, `syscall`, `schedstat`, `stack`, `limits`, `cgroup`.

/// Returns the text without its trailing newline.
pub(crate) fn line(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the lines that are not empty, padding kept.
pub(crate) fn lines(bytes: &[u8]) -> Vec<String> {
    bytes
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_stays_and_newlines_go() {
        assert_eq!(line(b"0 1 2\n"), "0 1 2");
        assert_eq!(line(b""), "");
        assert_eq!(
            lines(b"Limit   Soft  \nMax  \n\n"),
            ["Limit   Soft  ", "Max  "]
        );
    }
}
