//! What could not be seen, at the end of a page: one line for each kind of gap.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::{Gap, ProcessId, Snapshot};

use super::doing::code_words;
use super::text::safe;

/// How many processes a line names.
const NAMED: usize = 6;

/// Returns the section, empty where nothing is missing.
pub(crate) fn section(snapshot: &Snapshot) -> String {
    lines(snapshot.gaps.iter())
}

/// Returns the section for one process.
pub(crate) fn section_of(snapshot: &Snapshot, process: ProcessId) -> String {
    lines(
        snapshot
            .gaps
            .iter()
            .filter(|gap| gap.process == Some(process)),
    )
}

#[derive(Default)]
struct Kind<'a> {
    pids: Vec<i32>,
    count: u64,
    detail: Option<&'a str>,
    remedy: Option<&'a str>,
}

fn lines<'a>(gaps: impl Iterator<Item = &'a Gap>) -> String {
    let mut kinds: BTreeMap<(&str, &str), Kind<'a>> = BTreeMap::new();
    for gap in gaps {
        let kind = kinds
            .entry((gap.what.as_str(), code_words(gap.code)))
            .or_default();
        kind.pids.extend(gap.process.map(|process| process.pid));
        kind.count += u64::from(gap.count);
        kind.detail = kind.detail.or(gap.detail.as_deref());
        kind.remedy = kind.remedy.or(gap.remedy.as_deref());
    }
    if kinds.is_empty() {
        return String::new();
    }
    let mut section = "\nNot seen:\n".to_owned();
    for ((what, code), kind) in kinds {
        _ = write!(section, "  {}: {code}", safe(what));
        if let Some(detail) = kind.detail {
            _ = write!(section, " ({})", safe(detail));
        }
        section.push_str(&whose(&kind));
        section.push('\n');
        if let Some(remedy) = kind.remedy {
            _ = writeln!(section, "    to see it: {}", safe(remedy));
        }
    }
    section
}

fn whose(kind: &Kind<'_>) -> String {
    let mut words = String::new();
    let named: Vec<String> = kind.pids.iter().take(NAMED).map(i32::to_string).collect();
    match kind.pids.len() {
        0 => {}
        1 => _ = write!(words, "; process {}", named.join(", ")),
        many if many <= NAMED => _ = write!(words, "; processes {}", named.join(", ")),
        many => {
            _ = write!(
                words,
                "; processes {} and {} more",
                named.join(", "),
                many - NAMED
            );
        }
    }
    if kind.count > kind.pids.len().max(1) as u64 {
        _ = write!(words, ", {} times", kind.count);
    }
    words
}
