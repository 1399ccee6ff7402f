//! Names that are no text, in a form that loses nothing.

use std::fmt::Write as _;

/// Returns the bytes as text with `\\`, `\n` and `\xff` for what is not printable text; nothing where the bytes are text and lose
/// nothing as such.
pub(crate) fn escaped(bytes: &[u8]) -> Option<String> {
    if std::str::from_utf8(bytes).is_ok() {
        return None;
    }
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                _ if letter.is_control() => _ = write!(text, "\\x{:02x}", u32::from(letter)),
                _ => text.push(letter),
            }
        }
        for byte in chunk.invalid() {
            _ = write!(text, "\\x{byte:02x}");
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_text_is_written_out() {
        assert_eq!(
            escaped(b"a) R 1\n\xff(x").as_deref(),
            Some(r"a) R 1\n\xff(x")
        );
        assert_eq!(
            escaped(
                "\u{e4}\\\u{1}"
                    .as_bytes()
                    .iter()
                    .chain(b"\xc3")
                    .copied()
                    .collect::<Vec<_>>()
                    .as_slice()
            )
            .as_deref(),
            Some("\u{e4}\\\\\\x01\\xc3")
        );
    }

    #[test]
    fn text_needs_no_other_form() {
        assert_eq!(escaped("tr\u{e4}in \\n".as_bytes()), None);
        assert_eq!(escaped(b""), None);
    }

    proptest! {
        #[test]
        fn different_bytes_stay_different(a in proptest::collection::vec(any::<u8>(), 0..8), b in proptest::collection::vec(any::<u8>(), 0..8)) {
            prop_assume!(a != b);
            if let (Some(a), Some(b)) = (escaped(&a), escaped(&b)) {
                prop_assert_ne!(a, b);
            }
        }
    }
}
