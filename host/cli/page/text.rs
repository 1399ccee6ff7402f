//! Text of other people's processes and plugins, made safe for a terminal; and colour.

/// Returns `text` with control characters escaped, so that no process can write to the reader's terminal.
pub(crate) fn safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_invisible(character) {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    safe
}

/// Marks that change the direction of text or that cannot be seen.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Returns the last component of a path, or the whole where there is none.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/')
        .next()
        .filter(|name| !name.is_empty())
        .unwrap_or(path)
}

/// Returns a number with its noun.
pub(crate) fn count(
    number: impl TryInto<u64> + Copy + std::fmt::Display,
    one: &str,
    many: &str,
) -> String {
    let noun = if number.try_into().is_ok_and(|number| number == 1) {
        one
    } else {
        many
    };
    format!("{number} {noun}")
}

/// Returns `text` cut to `width` characters, the last of which is `…` where something was cut.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

pub(crate) fn bold(text: &str, color: bool) -> String {
    paint(text, "1", color)
}

pub(crate) fn yellow(text: &str, color: bool) -> String {
    paint(text, "33", color)
}

pub(crate) fn red(text: &str, color: bool) -> String {
    paint(text, "31", color)
}

fn paint(text: &str, code: &str, color: bool) -> String {
    if color {
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_cannot_write_to_the_terminal() {
        assert_eq!(safe("a\u{1b}[2J\nb\u{202e}"), "a\\u{1b}[2J\\nb\\u{202e}");
    }

    #[test]
    fn cutting_counts_characters_not_bytes() {
        assert_eq!(cut("żółw", 4), "żółw");
        assert_eq!(cut("żółwie", 4), "żół…");
    }
}
