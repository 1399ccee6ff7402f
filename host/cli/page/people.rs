//! Of what merged stacks are, and who is at a place, in a few words.

use std::collections::BTreeSet;

use diagnose::{Others, Stay, Unread};
use model::{Snapshot, Timestamp};
use serde::Serialize;

use super::doing::code_words;
use super::text::{bold, count, cut, safe};
use crate::ui::Ui;

/// More ranks than these are told with their number.
const FEW_RANKS: usize = 8;
/// The widest that a list of ranks may be.
const RANKS_WIDTH: usize = 28;

/// The snapshots that were merged.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Looked {
    attempt: u32,
    /// The earliest, by the clock of the first node.
    from: Option<Timestamp>,
    nodes: BTreeSet<String>,
    snapshots: usize,
    task: String,
    /// The latest.
    to: Option<Timestamp>,
}

impl Looked {
    /// Takes note of one that was taken at `at`.
    pub(crate) fn add(&mut self, snapshot: &Snapshot, at: Timestamp) {
        self.attempt = snapshot.task.attempt;
        self.from = Some(self.from.map_or(at, |from| from.min(at)));
        self.nodes.insert(snapshot.task.node.clone());
        self.snapshots += 1;
        self.task = snapshot.task.pathspec.to_string();
        self.to = self.to.max(Some(at));
    }

    /// Returns the first lines of a page.
    pub(super) fn title(&self, ui: Ui) -> String {
        let task = bold(&safe(&self.task), ui.color);
        let nodes = match self.nodes.iter().collect::<Vec<_>>().as_slice() {
            [one] => format!("node {}", safe(one)),
            several => format!("{} nodes", several.len()),
        };
        let (attempt, when) = (self.attempt, self.when());
        format!("{task}  attempt {attempt}  {nodes}\n{when}")
    }

    /// Returns when it was.
    pub(super) fn when(&self) -> String {
        match (self.from, self.to) {
            (Some(from), Some(to)) if from == to => format!("{} UTC", to.human()),
            (Some(from), Some(to)) => format!(
                "{} snapshots from {} to {} UTC",
                self.snapshots,
                from.human(),
                time(to, from)
            ),
            _ => "no snapshot".to_owned(),
        }
    }
}

/// A time without its day where that is the day of `other`.
pub(super) fn time(time: Timestamp, other: Timestamp) -> String {
    let (time, other) = (time.human(), other.human());
    match (time.split_once(' '), other.split_once(' ')) {
        (Some((day, clock)), Some((of_other, _))) if day == of_other => clock.to_owned(),
        _ => time,
    }
}

/// `ranks 0-2,5`; of many ranks, with how many they are; of very many, the first of them.
pub(crate) fn ranks(ranks: &str, how_many: usize) -> Option<String> {
    match how_many {
        0 => None,
        1 => Some(format!("rank {ranks}")),
        2..=FEW_RANKS => Some(format!("ranks {ranks}")),
        _ => {
            let few = cut(ranks, RANKS_WIDTH);
            // A list ends with a whole number.
            let few = match few.strip_suffix('…').and_then(|few| few.rsplit_once(',')) {
                Some((whole, _)) => format!("{whole},…"),
                None => few,
            };
            Some(format!("{how_many} ranks {few}"))
        }
    }
}

/// `launch.py (4711)`, `3 times worker.py`, else how many.
pub(super) fn others(others: &[Others]) -> Option<String> {
    let program = |of: &Others| match of.program.as_str() {
        "" => "process".to_owned(),
        program => safe(program),
    };
    match others {
        [] => None,
        [one] => Some(match one.pids.as_slice() {
            [pid] => format!("{} ({pid})", program(one)),
            pids => format!("{} times {}", pids.len(), program(one)),
        }),
        [one, other] if one.pids.len() + other.pids.len() == 2 => {
            Some(format!("{}, {}", program(one), program(other)))
        }
        several => {
            let processes: usize = several.iter().map(|it| it.pids.len()).sum();
            Some(format!(
                "{processes} processes of {} programs",
                several.len()
            ))
        }
    }
}

/// Who, and how many threads.
pub(super) fn who(
    (of_ranks, rank_count): (&str, usize),
    without: &[Others],
    threads: usize,
    color: bool,
) -> String {
    let who = ranks(of_ranks, rank_count)
        .into_iter()
        .chain(others(without));
    let who: Vec<String> = who.collect();
    let threads = count(threads, "thread", "threads");
    format!("{}, {threads}", bold(&who.join(" and "), color))
}

/// How much of the time, and since or until when, of so many threads.
pub(super) fn stay(stay: &Stay, threads: usize, day: Timestamp) -> String {
    let percent = match (stay.looks * 100).checked_div(stay.of) {
        Some(0) => "< 1 %".to_owned(),
        percent => format!("{} %", percent.unwrap_or(0)),
    };
    let until = match stay.since {
        Some(since) if stay.now == threads => format!("since {}", time(since, day)),
        Some(since) => format!("{} of them since {}", stay.now, time(since, day)),
        None => format!("last at {}", time(stay.last, day)),
    };
    format!("{percent}, {until}")
}

/// Says of whom nothing is known, and why.
pub(super) fn unread(unread: &[Unread]) -> String {
    let lines = unread.iter().map(|it| {
        let ranks = ranks(&it.ranks, it.rank_count).into_iter();
        let who: Vec<String> = ranks.chain(others(&it.others)).collect();
        let (who, why) = (who.join(" and "), code_words(it.code));
        format!("no stack of {who}: {why}\n")
    });
    lines.collect()
}
