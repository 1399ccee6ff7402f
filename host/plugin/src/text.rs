//! Foreign words made fit for one line of a log, a message or a terminal.

/// Returns `text` on one line, without control characters, cut to at most `limit` bytes.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let mut line = String::new();
    for word in text.split(|character: char| character.is_control() || character.is_whitespace()) {
        if word.is_empty() {
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        let room = limit.saturating_sub(line.len());
        if word.len() > room {
            line.push_str(&word[..word.floor_char_boundary(room)]);
            line.push('…');
            break;
        }
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_line_breaks_become_spaces() {
        assert_eq!(one_line("a\n\u{1b}[31mred\t b", 100), "a [31mred b");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(one_line("ääää", 5), "ää…");
        assert_eq!(one_line("aa bb", 3), "aa …");
    }
}
