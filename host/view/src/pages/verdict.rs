//! What is wrong: the sentence first, then who is to blame, who waits, and what shows it.

use diagnose::{Culprit, Evidence, State, Verdict};
use maud::{Markup, html};

use crate::digest::short;
use crate::judged::Answered;
use crate::moment::Moment;
use crate::query::written;

/// Values that are shown as evidence at first.
const EVIDENCE: usize = 24;
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
        @if let Some(culprit) = &verdict.culprit { (blame(culprit, moment)) }
        (victims(verdict))
        (evidence(&verdict.evidence, moment))
        @if !verdict.findings.is_empty() {
            details {
                summary { "also (" (verdict.findings.len()) ")" }
                ul {
                    @for finding in &verdict.findings {
                        li { strong { (finding.cause.word()) } ": " (finding.summary) (evidence(&finding.evidence, moment)) }
                    }
                }
            }
        }
        @for words in &answered.unread {
            p.gap { "not read: " (words) }
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

fn blame(culprit: &Culprit, moment: &Moment) -> Markup {
    let query = written([
        ("task", moment.run.id.task.to_string()),
        ("attempt", moment.run.id.attempt.to_string()),
        ("node", culprit.node.clone()),
        ("process", culprit.process.clone()),
        ("at", moment.at.to_string()),
    ]);
    html! {
        dl.facts {
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
        }
    }
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
            dl.facts {
                dt { "waiting" }
                dd {
                    @if !ranks.is_empty() { "ranks " (short(&ranks)) " " }
                    @if !pids.is_empty() { "processes " (pids.join(", ")) }
                }
            }
        }
    }
}

/// Values with links to where they stand in their snapshots.
fn evidence(all: &[Evidence], moment: &Moment) -> Markup {
    html! {
        @if !all.is_empty() {
            details {
                summary { "evidence (" (all.len()) ")" }
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
    written([
        ("task", moment.run.id.task.to_string()),
        ("attempt", moment.run.id.attempt.to_string()),
        ("node", evidence.node.clone()),
        ("at", evidence.snapshot.clone()),
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
