//! A snapshot as a page for a terminal: what matters first, what could not be seen last.

mod call;
mod compared;
mod connections;
mod cost;
mod doing;
mod gaps;
mod gpus;
mod merged;
mod moved;
mod people;
mod process;
mod process_facts;
mod python;
mod redactions;
mod report;
mod room;
mod steps;
pub(crate) mod table;
pub(crate) mod text;
mod tree;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::{Annotation, OutcomeKind, ProcessId, Severity, Snapshot, Target, Trigger};

use crate::ui::Ui;
pub(crate) use call::call;
pub(crate) use compared::page as compared;
pub(crate) use doing::{code_words, frames};
pub(crate) use merged::page as merged;
pub(crate) use moved::page as moved;
pub(crate) use people::{Looked, ranks};
pub(crate) use process::process;
pub(crate) use redactions::{page as redactions_page, redactions};
pub(crate) use report::report;
pub(crate) use text::{base_name, bold, count, cut, red, safe, yellow};
pub(crate) use tree::state_words;

/// Where the snapshot stands among others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heading<'a> {
    /// An earlier snapshot of the same node and attempt, for rates.
    pub(crate) earlier: Option<&'a Snapshot>,
    /// Its position among the snapshots of its node, from 1, and how many there are.
    pub(crate) position: Option<(usize, usize)>,
    /// Other nodes of the same attempt.
    pub(crate) other_nodes: Vec<String>,
    /// What is known of their clocks, in words.
    pub(crate) clocks: Vec<(String, String)>,
}

/// Returns the page of a whole snapshot.
pub(crate) fn overview(snapshot: &Snapshot, heading: &Heading<'_>, ui: Ui) -> String {
    let mut page = String::new();
    title(&mut page, snapshot, heading, ui);
    groups(&mut page, snapshot);
    findings(&mut page, snapshot, ui);
    page.push_str(&room::lines(snapshot));
    page.push('\n');
    page.push_str(&tree::tree(snapshot, heading.earlier, ui));
    page.push_str(&gpus::section(snapshot));
    plugins(&mut page, snapshot);
    page.push_str(&gaps::section(snapshot));
    page.push_str(&cost::line(snapshot));
    page
}

/// What plugins said of each process, by well-known key.
pub(crate) struct Notes<'a>(BTreeMap<(ProcessId, &'a str), &'a Annotation>);

impl<'a> Notes<'a> {
    /// Returns the notes on the processes of `snapshot`.
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let mut notes = BTreeMap::new();
        for annotation in &snapshot.annotations {
            if let Target::Process(id) = annotation.target {
                notes.insert((id, annotation.key.as_str()), annotation);
            }
        }
        Self(notes)
    }

    /// Returns the value of `key` on `id`.
    pub(crate) fn get(&self, id: ProcessId, key: &str) -> Option<String> {
        self.0
            .get(&(id, key))
            .map(|annotation| text::safe(&annotation.value.to_string()))
    }

    /// Returns every note on `id`, by key.
    pub(crate) fn all(&self, id: ProcessId) -> impl Iterator<Item = &'a Annotation> {
        self.0
            .range((id, "")..)
            .take_while(move |((of, _), _)| *of == id)
            .map(|(_, annotation)| *annotation)
    }

    /// Returns what part the process plays, such as `rank 3`; empty where nobody said.
    pub(crate) fn part(&self, id: ProcessId) -> String {
        match (self.get(id, "role").as_deref(), self.get(id, "rank")) {
            (Some("rank") | None, Some(rank)) => format!("rank {rank}"),
            (Some(role), Some(rank)) => format!("{role} of rank {rank}"),
            (Some(role), None) => role.to_owned(),
            (None, None) => String::new(),
        }
    }
}

fn title(page: &mut String, snapshot: &Snapshot, heading: &Heading<'_>, ui: Ui) {
    let (task, capture) = (&snapshot.task, &snapshot.capture);
    let bold = text::bold(task.pathspec.as_str(), ui.color);
    _ = write!(
        page,
        "{bold}  attempt {}  node {}",
        task.attempt,
        text::safe(&task.node)
    );
    if let Some((position, total)) = heading.position {
        _ = write!(page, "  snapshot {position} of {total}");
    }
    if let Some(trigger) = capture.trigger {
        _ = write!(page, " ({})", trigger_words(trigger));
    }
    let python = snapshot
        .processes
        .iter()
        .filter(|process| process.python_candidate)
        .count();
    let stacks = snapshot
        .processes
        .iter()
        .filter(|process| process.pyspy.is_some())
        .count();
    _ = write!(
        page,
        "\n{} UTC  {}, {python} Python, {stacks} with stacks  captured in {:.0} ms",
        capture.started_at.human(),
        text::count(snapshot.processes.len(), "process", "processes"),
        capture.duration_ms,
    );
    if let Some(missed @ 1..) = capture.missed_cycles {
        _ = write!(
            page,
            "  {} missed before it",
            text::count(missed, "cycle", "cycles")
        );
    }
    page.push('\n');
    if !heading.other_nodes.is_empty() {
        let others = heading
            .other_nodes
            .iter()
            .map(|node| text::safe(node))
            .collect::<Vec<_>>()
            .join(", ");
        _ = writeln!(page, "other nodes (--node): {others}");
        for (node, words) in &heading.clocks {
            _ = writeln!(page, "  {}: {words}", text::safe(node));
        }
    }
}

/// Returns what caused a snapshot, in words.
pub(crate) fn trigger_words(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Start => "at the start",
        Trigger::Interval => "by interval",
        Trigger::Requested => "on request",
        Trigger::Signal => "at a signal",
        Trigger::Pressure => "under pressure",
        Trigger::Deadline => "before a deadline",
        Trigger::Burst => "in a burst",
        Trigger::Exit => "at the end",
    }
}

/// One line for each group of ranks: which are here, which are missing or twice.
fn groups(page: &mut String, snapshot: &Snapshot) {
    let mut groups: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    for annotation in &snapshot.annotations {
        if let Target::Group(name) = &annotation.target {
            let value = text::safe(&annotation.value.to_string());
            groups
                .entry(name)
                .or_default()
                .insert(&annotation.key, value);
        }
    }
    for (name, keys) in groups {
        let ranks = snapshot
            .annotations
            .iter()
            .filter(|annotation| annotation.key == "group" && annotation.value.to_string() == name);
        let notes = Notes::of(snapshot);
        let ranks = ranks
            .filter(|annotation| match annotation.target {
                Target::Process(id) => notes.get(id, "role").as_deref() == Some("rank"),
                _ => false,
            })
            .count();
        _ = write!(
            page,
            "group {}: {} here",
            text::safe(name),
            text::count(ranks, "rank", "ranks")
        );
        if let Some(size) = keys.get("world-size") {
            _ = write!(page, " of {size}");
        }
        for (key, words) in [("missing-ranks", "missing"), ("duplicate-ranks", "twice")] {
            if let Some(list) = keys.get(key).filter(|list| !list.is_empty()) {
                _ = write!(page, ", {words}: {list}");
            }
        }
        page.push('\n');
    }
}

fn findings(page: &mut String, snapshot: &Snapshot, ui: Ui) {
    for finding in &snapshot.findings {
        let severity = match finding.severity {
            Severity::Info => "note".to_owned(),
            Severity::Warning => text::yellow("warning", ui.color),
            Severity::Error => text::red("error", ui.color),
        };
        _ = writeln!(page, "{severity}: {}", text::safe(&finding.message));
    }
}

/// One line for each plugin that did not answer; those that did are no news.
fn plugins(page: &mut String, snapshot: &Snapshot) {
    for outcome in snapshot
        .plugins
        .iter()
        .filter(|outcome| outcome.outcome != OutcomeKind::Ok)
    {
        let kind = serde_json::to_value(outcome.outcome).unwrap_or_default();
        let kind = kind.as_str().unwrap_or("failed").replace('-', " ");
        _ = write!(page, "\nplugin {}: {kind}", text::safe(&outcome.instance));
        if let Some(message) = &outcome.message {
            _ = write!(page, ": {}", text::safe(message));
        }
        page.push('\n');
    }
}

#[cfg(test)]
pub(crate) mod tests;
