//! Why a call gave no answer, and what becomes of the instance.

use std::time::Duration;

use model::OutcomeKind;
use wasmtime::{Trap, WasmBacktrace};

use crate::bindings::taskscope::plugin::types::{Error, ErrorKind};
use crate::limits::Memory;
use crate::text::one_line;
use crate::words::Words;

/// A call without an answer.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: OutcomeKind,
    /// What went wrong, in words, without a full stop.
    pub(crate) message: String,
    pub(crate) then: Then,
    /// What may help its author: the last lines that it wrote, and where in its code it was.
    pub(crate) trail: Vec<String>,
}

/// Lines of a trail that are its last words, and as many that are its calls.
const TRAIL_LINES: usize = 12;

/// What becomes of the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// It is sound and is kept; it is asked again after this time.
    Keep(Duration),
    /// It is thrown away; a new one is made after a rest. After a trap or a cancelled call an instance can never be
    /// entered again.
    Replace,
    /// It is thrown away, and the plugin is not called again.
    Disable,
}

impl Failure {
    /// The plugin cannot be loaded.
    pub(crate) fn load(message: String) -> Self {
        Self {
            kind: OutcomeKind::LoadFailed,
            message,
            then: Then::Disable,
            trail: Vec::new(),
        }
    }

    /// The settings do not do; the plugin was not asked.
    pub(crate) fn settings(message: String) -> Self {
        Self {
            kind: OutcomeKind::ConfigRefused,
            message,
            then: Then::Disable,
            trail: Vec::new(),
        }
    }

    /// The call took longer than `deadline`.
    pub(crate) fn out_of_time(deadline: Duration, words: &Words) -> Self {
        let message = format!("no answer within {deadline:?}");
        Self {
            kind: OutcomeKind::OutOfTime,
            message,
            then: Then::Replace,
            trail: words.lines(TRAIL_LINES),
        }
    }

    /// The plugin answered with an error of its own.
    pub(crate) fn refused(error: &Error) -> Self {
        let (kind, then) = match error.kind {
            ErrorKind::Config => (OutcomeKind::ConfigRefused, Then::Disable),
            ErrorKind::Unavailable => {
                let rest = Duration::from_millis(error.retry_after_ms.unwrap_or(0).into());
                (
                    OutcomeKind::Refused,
                    Then::Keep(rest.min(crate::limits::LONGEST_REST)),
                )
            }
            ErrorKind::Rejected | ErrorKind::Denied | ErrorKind::Limit | ErrorKind::Internal => {
                (OutcomeKind::Refused, Then::Keep(Duration::ZERO))
            }
        };
        Self {
            kind,
            message: sentence(&error.message),
            then,
            trail: Vec::new(),
        }
    }

    /// The call ended with a trap. A panic says why on standard error only; a memory limit shows as a panic.
    pub(crate) fn trapped(error: &wasmtime::Error, memory: &Memory, words: &Words) -> Self {
        let root = error.root_cause().to_string();
        let last_words = words.last();
        let (kind, message) = if root.contains("too much data is being copied") {
            let limit = crate::limits::HANDED_OVER_BYTES >> 20;
            (
                OutcomeKind::OverLimit,
                format!("it handed over more than {limit} MiB in one call"),
            )
        } else if root.contains("invalid utf-8") {
            let message = "it handed over text that is not UTF-8".to_owned();
            (OutcomeKind::Trapped, message)
        } else if error.downcast_ref::<Trap>() == Some(&Trap::StackOverflow) {
            let message = "its calls went deeper than the stack of 1 MiB".to_owned();
            (OutcomeKind::Trapped, message)
        } else if memory.refused {
            let words = last_words
                .map(|words| format!(" ({words})"))
                .unwrap_or_default();
            (
                OutcomeKind::OverLimit,
                format!("it wanted more than {} of memory{words}", size(memory.cap)),
            )
        } else if let Some(words) = last_words {
            (OutcomeKind::Trapped, words)
        } else if error.downcast_ref::<Trap>() == Some(&Trap::UnreachableCodeReached) {
            (OutcomeKind::Trapped, "it gave up without a word".to_owned())
        } else {
            (OutcomeKind::Trapped, root)
        };
        Self {
            kind,
            message: sentence(&message),
            then: Then::Replace,
            trail: trail(error, words),
        }
    }
}

fn trail(error: &wasmtime::Error, words: &Words) -> Vec<String> {
    let mut trail = words.lines(TRAIL_LINES);
    if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() {
        let calls = backtrace.to_string();
        // Its first line is a heading.
        let calls = calls.lines().skip(1).take(TRAIL_LINES);
        trail.extend(calls.map(|line| one_line(line, 256)));
    }
    trail
}

/// On one line, of bounded length, without its full stop.
fn sentence(words: &str) -> String {
    one_line(words, 1 << 10).trim_end_matches('.').to_owned()
}

fn size(bytes: usize) -> String {
    if bytes.is_multiple_of(1 << 20) {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{bytes} bytes")
    }
}
