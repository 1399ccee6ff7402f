//! One line of text, one request. What a line may be is told in docs/control.md.
//!
//! Lines come from any process of the user's: nothing in here may panic, and what is refused is refused with words.

use std::fmt;

use monitor::StageLine;

use crate::config::Span;

/// The longest line, bytes, its end included.
pub(crate) const LINE_LIMIT: usize = 1024;

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    Ask(Ask),
    /// Of a stage; it has no answer.
    Stage(StageLine),
}

/// What a line asks. Each is answered by one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ask {
    /// Another time between two snapshots; none: as the settings say.
    Interval(Option<Span>),
    Pause,
    /// Whether all lines before it were taken.
    Ping,
    Resume,
    Snapshot,
    Status,
}

const FORMS: &str = "stage …, status, snapshot, interval 5s, interval auto, pause, resume, ping";

/// Reads a line without its end.
pub(crate) fn parse(line: &[u8]) -> Result<Line, String> {
    let line = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned())?;
    let (verb, rest) = word(line);
    let ask = match (verb, rest) {
        ("status", "") => Ask::Status,
        ("snapshot", "") => Ask::Snapshot,
        ("pause", "") => Ask::Pause,
        ("stage", said) => {
            let said = StageLine::parse(said).map_err(|error| error.to_string())?;
            return Ok(Line::Stage(said));
        }
        ("ping", "") => Ask::Ping,
        ("resume", "") => Ask::Resume,
        ("interval", "auto") => Ask::Interval(None),
        ("interval", text) => Ask::Interval(Some(shown(text).parse()?)),
        _ => return Err(format!("`{}` is none of: {FORMS}", shown(line))),
    };
    Ok(Line::Ask(ask))
}

/// Whether a line, which may be none, is to have no answer.
pub(crate) fn is_of_a_stage(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"stage")
}

impl fmt::Display for Ask {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interval(None) => formatter.write_str("interval auto"),
            Self::Interval(Some(span)) => write!(formatter, "interval {span}"),
            Self::Pause => formatter.write_str("pause"),
            Self::Ping => formatter.write_str("ping"),
            Self::Resume => formatter.write_str("resume"),
            Self::Snapshot => formatter.write_str("snapshot"),
            Self::Status => formatter.write_str("status"),
        }
    }
}

/// The first word, and what follows the blanks after it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_matches([' ', '\t', '\r']);
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    (word, rest.trim_start())
}

/// A stranger's words, short and safe to show.
fn shown(text: &str) -> String {
    crate::page::safe(&crate::page::text::cut(text, 40))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_request_has_one_form() {
        for ask in [
            Ask::Interval(Some(Span::seconds(5))),
            Ask::Interval(None),
            Ask::Pause,
            Ask::Ping,
            Ask::Resume,
            Ask::Snapshot,
            Ask::Status,
        ] {
            let line = ask.to_string();
            assert_eq!(parse(line.as_bytes()), Ok(Line::Ask(ask)));
            assert!(!is_of_a_stage(line.as_bytes()));
        }
        assert_eq!(parse(b"  status \r"), Ok(Line::Ask(Ask::Status)));
        assert!(matches!(
            parse(b" stage begin name=stage  1 "),
            Ok(Line::Stage(StageLine::Begin(begin))) if begin.name == "stage  1"
        ));
        assert!(is_of_a_stage(b" stage"));
    }

    #[test]
    fn what_is_refused_says_what_is_accepted() {
        let error = parse(b"stop\x1b[2J now").unwrap_err();
        assert_eq!(
            error,
            "`stop\\u{1b}[2J now` is none of: stage …, status, snapshot, interval 5s, interval auto, pause, resume, ping"
        );
        let error = parse(b"interval 0s").unwrap_err();
        assert!(error.starts_with("`0s` is not a duration"), "{error}");
        assert_eq!(parse(b"\xff").unwrap_err(), "the line is not UTF-8");
        assert!(parse(b"pause now").is_err());
        assert!(parse(b"").is_err());
    }

    proptest! {
        #[test]
        fn no_line_panics_and_a_refusal_is_short_and_safe(line in proptest::collection::vec(any::<u8>(), 0..LINE_LIMIT)) {
            if let Err(error) = parse(&line) {
                prop_assert!(error.len() < 1000, "{}", error);
                prop_assert!(!error.chars().any(char::is_control), "{}", error);
            }
        }
    }
}
