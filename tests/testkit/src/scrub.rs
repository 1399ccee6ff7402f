//! What differs from run to run, by name, for insta's filters.

use std::path::Path;

/// Pairs of a regular expression and its replacement, in the order to apply them: `[ROOT]`, `[TIME]`, `[SIZE]`, `[PID]`.
/// `root` is the directory of the sandbox.
pub fn scrubbers(root: &Path) -> Vec<(String, &'static str)> {
    vec![
        (literally(&root.display().to_string()), "[ROOT]"),
        // 2025-01-31T09:15:00.123Z and the stamps of file names, 20250131T091500Z.
        (
            r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\b)".to_owned(),
            "[TIME]",
        ),
        (r"\b\d{8}T\d{6}(\.?\d+)?Z".to_owned(), "[TIME]"),
        (r"\b\d+(\.\d+)? ?([KMGT]i?B|bytes|B)\b".to_owned(), "[SIZE]"),
        // 1234:567890, a PID with its start time, then every way we write a bare PID.
        (r"\b\d+:\d{3,}\b".to_owned(), "[PID]:[START]"),
        (r"(?i)\b(pid[ =:]+)\d+".to_owned(), "$1[PID]"),
    ]
}

/// A regular expression that matches `text` and nothing else.
fn literally(text: &str) -> String {
    let escape = |letter: char| match letter {
        letter if letter.is_alphanumeric() || letter == '/' || letter == '_' => letter.to_string(),
        letter => format!(r"\x{{{:x}}}", u32::from(letter)),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_matched_letter_by_letter() {
        assert_eq!(literally("/tmp/a.b-C_9"), r"/tmp/a\x{2e}b\x{2d}C_9");
    }
}
