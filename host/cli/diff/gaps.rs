//! What could be seen and cannot now, and the other way round. Of processes that are in one snapshot only, nothing.

use std::collections::BTreeSet;

use model::{Gap, GapCode, ProcessId, Snapshot};

use super::{Change, Kind};
use crate::page::{code_words, safe};

type Seen<'a> = BTreeSet<(&'a str, GapCode, Option<ProcessId>)>;

pub(super) fn changes(from: &Snapshot, to: &Snapshot) -> Vec<Change> {
    let (before, after) = (gaps(from, to), gaps(to, from));
    let came = after.difference(&before);
    let went = before.difference(&after);
    let change = |kind, &(what, code, process): &(&str, GapCode, Option<ProcessId>)| {
        let text = format!("{}: {}", safe(what), code_words(code));
        Change {
            process,
            ..Change::of_all(kind, text)
        }
    };
    came.map(|gap| change(Kind::Unseen, gap))
        .chain(went.map(|gap| change(Kind::Seen, gap)))
        .collect()
}

fn gaps<'a>(snapshot: &'a Snapshot, other: &Snapshot) -> Seen<'a> {
    let is_in_both = |gap: &&Gap| {
        gap.process.is_none_or(|process| {
            let mut processes = other.processes.iter();
            processes.any(|it| it.identity == process)
        })
    };
    // Its stack is told with the other threads; a thread that ended is no news.
    let is_news = |gap: &&Gap| gap.what != "python_stack" && gap.code != GapCode::Vanished;
    let gaps = snapshot.gaps.iter().filter(is_in_both).filter(is_news);
    gaps.map(|gap| (gap.what.as_str(), gap.code, gap.process))
        .collect()
}
