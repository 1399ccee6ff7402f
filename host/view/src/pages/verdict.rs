//! What is wrong: the sentence first, then who is to blame, who waits, and what shows it.

use std::time::Duration;

use diagnose::{Culprit, Evidence, State, Twin, Verdict, Victim};
use maud::{Markup, html};
use model::Timestamp;

use crate::digest::short;
use crate::judged::{Answered, Stand};
use crate::moment::Moment;
use crate::query::written;

/// Values that are shown as evidence at first.
const EVIDENCE: usize = 24;
/// Nodes that are named where several have stored nothing.
const NODES: usize = 8;
/// Characters of a value.
const VALUE: usize = 120;

/// Returns what stands there until the answer comes.
pub(crate) fn pending() -> Markup {
    html! { p.state.unknown { "reading the snapshots…" } }
}

/// Returns the answer.
pub(crate) fn verdict(answered: &Answered, moment: &Moment) -> Markup {
    let verdict = &answered.judgement.verdict;
    html! {
        p.state.(word(verdict.verdict)) {
            span.badge { (verdict.verdict.word()) }
            " "
            a.cause href={ "docs/causes.html#" (verdict.cause.word()) } { (verdict.cause.word()) }
        }
        p.summary { (verdict.summary) }
        (before_the_end(answered, moment))
        dl.facts {
            @if let Some(culprit) = &verdict.culprit { (blame(culprit, answered, moment)) }
            (victims(verdict))
        }
        (evidence("evidence", &verdict.evidence, moment))
        @if let Some(twin) = &answered.twin { (comparison(twin)) }
        @if !verdict.findings.is_empty() {
            details {
                summary { "also (" (verdict.findings.len()) ")" }
                ul {
                    @for finding in &verdict.findings {
                        li { strong { (finding.cause.word()) } ": " (finding.summary) (evidence("evidence", &finding.evidence, moment)) }
                    }
                }
            }
        }
        @for node in &answered.silent { p.gap { (node.words()) } }
        (without_snapshot(moment))
        @for words in &answered.unread {
            p.gap { "not read: " (words) }
        }
    }
}

/// Nodes that had stored nothing by this instant.
fn without_snapshot(moment: &Moment) -> Markup {
    let names: Vec<&str> = moment.without_snapshot().collect();
    let rest = names.len().saturating_sub(NODES);
    html! {
        @if !names.is_empty() {
            p.gap {
                @if names.len() == 1 { "node " } @else { "nodes " }
                (names[..names.len() - rest].join(", "))
                @if rest > 0 { " and " (rest) " more" }
                @if names.len() == 1 { " has" } @else { " have" }
                " stored no snapshot by this instant, and so cannot be judged"
            }
        }
    }
}

fn word(state: State) -> &'static str {
    match state {
        State::Hung | State::Failed => "bad",
        State::Slow => "warn",
        State::Unknown => "unknown",
        State::Healthy | State::Finished => "good",
    }
}

/// That the answer is about an instant before this one, and the way there.
fn before_the_end(answered: &Answered, moment: &Moment) -> Markup {
    let culprit = answered.judgement.verdict.culprit.as_ref();
    let stands = &answered.before_the_end;
    let its = culprit.map_or_else(
        || stands.first_key_value().map(|it| it.1),
        |it| stands.get(&it.node),
    );
    let address = |stand: &Stand| {
        written([
            ("task", moment.run.id.task.to_string()),
            ("attempt", moment.run.id.attempt.to_string()),
            ("at", stand.id.to_string()),
        ])
    };
    html! {
        @if let Some(stand) = its {
            p.stand {
                "So it was before the task was told to end; below is what was left of it after that. "
                a href={ "?" (address(stand)) } { "Look at " (stand.at.human()) " UTC" }
            }
        }
    }
}

fn blame(culprit: &Culprit, answered: &Answered, moment: &Moment) -> Markup {
    let stand = answered.before_the_end.get(&culprit.node);
    let named = || moment.named(&culprit.node);
    let query = written([
        ("task", moment.run.id.task.to_string()),
        ("attempt", moment.run.id.attempt.to_string()),
        ("node", culprit.node.clone()),
        ("process", culprit.process.clone()),
        ("at", stand.map_or_else(named, |stand| stand.id.to_string())),
    ]);
    html! {
        dt { "culprit" }
        dd {
            @if let Some(rank) = culprit.rank { "rank " (rank) ", " }
            a href={ "process?" (query) } { "process " (culprit.pid) }
            @if let Some(thread) = culprit.thread.filter(|thread| *thread != culprit.pid) { ", thread " (thread) }
            " on " (culprit.node)
        }
        @if let Some(frame) = &culprit.frame {
            dt { "where" }
            dd { code { (short(&frame.function)) } " " span.path { (short(&frame.file)) ":" (frame.line) } }
        }
        @if let Some(since) = answered.since {
            dt { "since" }
            dd { time datetime=(since) { (since.human()) " UTC" } (for_how_long(since, stand, moment)) }
        }
    }
}

/// How long that was at the instant that the answer is about.
fn for_how_long(since: Timestamp, stand: Option<&Stand>, moment: &Moment) -> String {
    let (at, words) = stand.map_or((moment.at, "at this instant"), |it| (it.at, "then"));
    format!(", for {} {words}", span_words(at.since(since)))
}

/// A time as people say it, in the two largest units.
fn span_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// What differs between the one to blame and the closest healthy rank.
fn comparison(twin: &Twin) -> Markup {
    let who = |victim: &Victim| match victim.rank {
        Some(rank) => format!("rank {rank}"),
        None => format!("process {}", victim.pid),
    };
    let (suspect, other) = (who(&twin.suspect), who(&twin.twin));
    html! {
        @if !twin.differences.is_empty() {
            details {
                summary { "what differs between " (suspect) " and " (other) ", which waits (" (twin.differences.len()) ")" }
                div.wide tabindex="0" { table {
                    thead { tr { th { "what" } th { (suspect) } th { (other) } } }
                    tbody {
                        @for difference in &twin.differences {
                            tr { td { (short(&difference.what)) } td { (short(&difference.suspect)) } td { (short(&difference.twin)) } }
                        }
                    }
                } }
            }
        }
    }
}

/// Ranks as people name them.
pub(super) fn ranks_words(ranks: &str) -> String {
    let is_one = ranks.bytes().all(|it| it.is_ascii_digit());
    let word = if is_one { "rank" } else { "ranks" };
    short(&format!("{word} {ranks}"))
}

fn victims(verdict: &Verdict) -> Markup {
    let ranks = verdict.victims.iter().filter_map(|victim| victim.rank);
    let ranks = diagnose::ranges(ranks);
    let others = verdict
        .victims
        .iter()
        .filter(|victim| victim.rank.is_none());
    let pids: Vec<String> = others
        .take(20)
        .map(|victim| victim.pid.to_string())
        .collect();
    html! {
        @if !verdict.victims.is_empty() {
            dt { "waiting" }
            dd {
                @if !ranks.is_empty() { (ranks_words(&ranks)) " " }
                @if !pids.is_empty() { "processes " (pids.join(", ")) }
            }
        }
    }
}

/// Values with links to where they stand in their snapshots.
pub(super) fn evidence(title: &str, all: &[Evidence], moment: &Moment) -> Markup {
    html! {
        @if !all.is_empty() {
            details {
                summary { (title) " (" (all.len()) ")" }
                ul.evidence {
                    @for evidence in all.iter().take(EVIDENCE) {
                        li {
                            a href={ "value?" (address(evidence, moment)) } { code { (evidence.path) } }
                            " = " code { (value(evidence)) }
                        }
                    }
                    @if all.len() > EVIDENCE { li { "and " (all.len() - EVIDENCE) " more" } }
                }
            }
        }
    }
}

fn address(evidence: &Evidence, moment: &Moment) -> String {
    // What an obituary shows is in a record beside the snapshots.
    let place = if evidence.snapshot.contains('/') {
        "record"
    } else {
        "at"
    };
    written([
        ("task", moment.run.id.task.to_string()),
        ("attempt", moment.run.id.attempt.to_string()),
        ("node", evidence.node.clone()),
        (place, evidence.snapshot.clone()),
        ("pointer", evidence.path.clone()),
    ])
}

fn value(evidence: &Evidence) -> String {
    let text = short(&evidence.value.to_string());
    if text.chars().count() > VALUE {
        text.chars().take(VALUE - 1).chain(['…']).collect()
    } else {
        text
    }
}
