//! The arguments of a process as they are kept: redacted, and no longer than they need be.

use model::{CutText, Gap, GapCode, Redaction};
use regex::Regex;

use crate::image::Image;
use crate::redact::Redactor;

/// More than this of a command line is not kept, bytes.
const KEPT: usize = 64 << 10;

/// What is kept of a command line.
pub(crate) struct CommandLine {
    pub(crate) arguments: Vec<String>,
    pub(crate) cut: Option<CutText>,
    pub(crate) matches_pattern: bool,
    pub(crate) redactions: Vec<Redaction>,
}

/// Takes the arguments of `image`; notes there what was cut.
pub(crate) fn take(
    image: &mut Image,
    redactor: &Redactor<'_>,
    pattern: Option<&Regex>,
) -> CommandLine {
    let mut arguments = std::mem::take(&mut image.arguments);
    // Before the cut: half a secret is not recognised.
    let redactions = redactor.arguments(&mut arguments);
    let matches_pattern = pattern.is_some_and(|pattern| pattern.is_match(&arguments.join(" ")));
    let hash = cut(&mut arguments);
    let cut = hash.map(|hash| CutText {
        bytes: image.cmdline_bytes,
        hash: format!("{hash:016x}"),
    });
    if let Some(cut) = &cut {
        let detail = format!("{} bytes; the first {KEPT} were kept", cut.bytes);
        let gap = Gap::new("cmdline", GapCode::Truncated);
        image.gaps.add(gap.with_detail(detail));
    }
    CommandLine {
        arguments,
        cut,
        matches_pattern,
        redactions,
    }
}

/// Cuts what is beyond the limit; returns a hash of the whole if something was.
fn cut(arguments: &mut Vec<String>) -> Option<u64> {
    let whole: usize = arguments.iter().map(|argument| argument.len() + 1).sum();
    if whole <= KEPT {
        return None;
    }
    let hash = hash(arguments);
    let mut left = KEPT;
    let fit = arguments.iter().take_while(|argument| {
        let fits = argument.len() < left;
        left -= if fits { argument.len() + 1 } else { 0 };
        fits
    });
    let fit = fit.count();
    arguments.truncate(fit + 1);
    let last = arguments.last_mut().expect("more than fits is there");
    last.truncate(last.floor_char_boundary(left));
    Some(hash)
}

/// FNV-1a, 64 bits.
fn hash(arguments: &[String]) -> u64 {
    let bytes = arguments
        .iter()
        .flat_map(|argument| argument.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_line_is_left_as_it_is() {
        let mut arguments = vec!["python".to_owned(), "x".repeat(KEPT - 8)];
        assert_eq!(cut(&mut arguments), None);
        assert_eq!(arguments[1].len(), KEPT - 8);
    }

    #[test]
    fn a_long_line_is_cut_in_the_argument_that_does_not_fit() {
        let mut arguments = vec!["python".to_owned(), "x".repeat(KEPT), "y".to_owned()];
        let hash = cut(&mut arguments);
        assert!(hash.is_some());
        assert_eq!((arguments.len(), arguments[1].len()), (2, KEPT - 7));
        let mut other = vec!["python".to_owned(), "x".repeat(KEPT), "z".to_owned()];
        assert_ne!(cut(&mut other), hash);
        assert_eq!(other, arguments);
    }

    #[test]
    fn no_character_is_cut_in_two() {
        let mut arguments = vec!["a".to_owned(), "\u{1f40d}".repeat(KEPT)];
        assert!(cut(&mut arguments).is_some());
        assert!(arguments[1].len() <= KEPT - 2 && arguments[1].len() > KEPT - 8);
        let mut many = vec!["ab".to_owned(); KEPT];
        assert!(cut(&mut many).is_some());
        assert!(
            many.iter()
                .map(|argument| argument.len() + 1)
                .sum::<usize>()
                <= KEPT + 1
        );
    }

    #[test]
    fn the_hash_is_the_one_that_is_documented() {
        // FNV-1a of the byte `a` is af63dc4c8601ec8c; a NUL follows it here.
        assert_eq!(hash(&[]), 0xcbf2_9ce4_8422_2325);
        let expected = 0xaf63_dc4c_8601_ec8c_u64.wrapping_mul(0x0000_0100_0000_01b3);
        assert_eq!(hash(&["a".to_owned()]), expected);
    }
}
