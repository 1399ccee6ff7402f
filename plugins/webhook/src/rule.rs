//! Which findings are told, and the message about them; no WebAssembly in here.
//!
//! An episode is a kind of finding and what it is about. It begins with the first snapshot that has it, and ends when so
//! many snapshots in a row are without it; it is told when it begins. Two findings of one kind about one thing are one
//! episode: their words may change with every snapshot.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::settings::{Settings, Severity};
use crate::template::Place;

/// Episodes that are remembered; beyond it nothing is told.
const EPISODES: usize = 2_000;
/// Bytes of what is remembered of one.
const ID_BYTES: usize = 256;
/// Findings that a message names one by one.
const NAMED: usize = 20;

/// A finding as the rule sees it.
#[derive(Clone, Debug)]
pub(crate) struct Fact {
    /// What it is about, for the memory: the same over snapshots.
    pub(crate) about: String,
    pub(crate) kind: String,
    pub(crate) message: String,
    pub(crate) severity: Severity,
    /// What it is about, for a person.
    pub(crate) target: String,
}

/// The head of the snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) captured_at_ms: u64,
    pub(crate) node: String,
    pub(crate) sequence: u64,
    pub(crate) task: String,
}

/// The episodes that are under way, and for how many snapshots in a row each has been missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory(BTreeMap<String, u32>);

/// What is to be done about a snapshot.
#[derive(Debug)]
pub(crate) struct Decision<'a> {
    /// The memory once that is done.
    pub(crate) memory: Memory,
    /// Findings of episodes that begin.
    pub(crate) news: Vec<&'a Fact>,
    /// How many chosen findings are no news.
    pub(crate) told_before: usize,
}

impl Memory {
    /// Reads what [`Memory::bytes`] made; anything else is no memory.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        Self(serde_json::from_slice(bytes).unwrap_or_default())
    }

    /// Returns it as bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        json!(self.0).to_string().into_bytes()
    }

    /// Decides what is told about a snapshot with `facts`.
    pub(crate) fn decide<'a>(&self, facts: &'a [Fact], settings: &Settings) -> Decision<'a> {
        let chosen = |fact: &&Fact| {
            fact.severity >= settings.severity
                && (settings.kinds.is_empty() || settings.kinds.contains(&fact.kind))
        };
        let mut memory = Self(BTreeMap::new());
        for (id, missing) in &self.0 {
            if missing + 1 < settings.ends_after {
                memory.0.insert(id.clone(), missing + 1);
            }
        }
        let (mut news, mut told_before) = (Vec::new(), 0);
        for fact in facts.iter().filter(chosen) {
            let id = fact.id();
            if self.0.contains_key(&id) {
                told_before += 1;
            } else if memory.0.len() < EPISODES || memory.0.contains_key(&id) {
                news.push(fact);
            } else {
                continue;
            }
            memory.0.insert(id, 0);
        }
        Decision {
            memory,
            news,
            told_before,
        }
    }
}

impl Fact {
    fn id(&self) -> String {
        let id = format!("{} {}", self.kind, self.about);
        id[..id.floor_char_boundary(ID_BYTES)].to_owned()
    }
}

/// Returns the body of the request that tells of `news`.
pub(crate) fn body(head: &Head, news: &[&Fact], settings: &Settings) -> String {
    let worst = news
        .iter()
        .map(|fact| fact.severity)
        .max()
        .unwrap_or(Severity::Info);
    let time = time(head.captured_at_ms);
    let Some(template) = &settings.template else {
        let finding = |fact: &&Fact| {
            json!({
                "kind": fact.kind, "message": fact.message, "severity": fact.severity.name(), "target": fact.target,
            })
        };
        let findings: Vec<_> = news.iter().map(finding).collect();
        return json!({
            "captured_at": time, "findings": findings, "node": head.node, "sequence": head.sequence,
            "severity": worst.name(), "summary": summary(news), "task": head.task,
        })
        .to_string();
    };
    let kinds: BTreeSet<&str> = news.iter().map(|fact| fact.kind.as_str()).collect();
    let text = template.fill(|place| match place {
        Place::Count => news.len().to_string(),
        Place::Kinds => kinds.iter().copied().collect::<Vec<_>>().join(", "),
        Place::Node => harmless(&head.node),
        Place::Sequence => head.sequence.to_string(),
        Place::Severity => worst.name().to_owned(),
        Place::Summary => harmless(&summary(news)),
        Place::Task => harmless(&head.task),
        Place::Time => time.clone(),
    });
    json!({ "text": text }).to_string()
}

/// One line for each finding, the first of them.
fn summary(news: &[&Fact]) -> String {
    let line = |fact: &&Fact| format!("{} {}: {}", fact.severity.name(), fact.kind, fact.message);
    let mut lines: Vec<String> = news.iter().take(NAMED).map(line).collect();
    if news.len() > NAMED {
        lines.push(format!("and {} more", news.len() - NAMED));
    }
    lines.join("\n")
}

/// What Slack would read as a mention or a link is text: a finding's words may come from the task.
fn harmless(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Returns milliseconds since 1970 as `2026-11-30T01:33:20Z`.
fn time(milliseconds: u64) -> String {
    let seconds = milliseconds / 1_000;
    let (mut days, of_day) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| {
        (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 0;
    let lengths = [
        31,
        28 + u64::from(is_leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!(
        "{year:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z",
        month + 1,
        days + 1
    )
}

/// What an answer with `status` means: nothing where all is well, else whether it may be otherwise later.
pub(crate) fn judge(status: u16) -> Option<Later> {
    match status {
        200..300 => None,
        408 | 425 | 429 | 500.. => Some(Later::Perhaps),
        _ => Some(Later::No),
    }
}

/// Whether a request that was not taken may be taken later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Later {
    No,
    Perhaps,
}

/// Returns how long `Retry-After` asks to wait, milliseconds; a date says nothing.
pub(crate) fn retry_after_ms(value: &str) -> Option<u32> {
    let seconds: u32 = value.trim().parse().ok()?;
    Some(seconds.saturating_mul(1_000))
}

#[cfg(test)]
mod tests;
