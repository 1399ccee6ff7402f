//! Who waits for whom: those that wait alike are one box, an arrow leads to who could end their wait.

use std::collections::{BTreeMap, BTreeSet};

use diagnose::{Waiting, Waits};
use maud::{Markup, html};

use super::processes::waits;
use super::trouble::gaps;
use super::verdict::{evidence, ranks_words};
use crate::answer::Trouble;
use crate::digest::short;
use crate::moment::{Moment, readable};
use crate::view::View;
use crate::work::Work;

/// Arrows that are drawn.
const ARROWS: usize = 100;
/// Names in a box.
const NAMES: usize = 12;

/// What makes waiters alike: how they wait, for whom, whether outsiders could end it, whether it is a circle.
type Alike = (bool, &'static str, Vec<usize>, bool);

/// Returns the part.
pub(crate) async fn ipc(view: &View, moment: &Moment) -> Result<Markup, Trouble> {
    let loaded = moment.snapshots(&view.shelf).await;
    let (moment, is_large) = (moment.clone(), Work::is_large(readable(&loaded)));
    let draw = move || {
        let waits = waits(&readable(&loaded));
        html! {
            (arrows(&waits, &moment))
            (gaps(&loaded))
        }
    };
    view.drawn(is_large, draw).await
}

fn arrows(waits: &Waits, moment: &Moment) -> Markup {
    let mut groups: BTreeMap<Alike, Vec<usize>> = BTreeMap::new();
    for (place, waiting) in waits.waits.iter().enumerate() {
        if let Some(way) = waiting.way {
            let on: BTreeSet<usize> = waiting.on.iter().copied().collect();
            // A circle comes first.
            let alike = (
                !waiting.is_in_circle,
                way,
                on.into_iter().collect(),
                waiting.outside,
            );
            groups.entry(alike).or_default().push(place);
        }
    }
    let others = waits.waits.iter().filter(|waiting| waiting.way.is_none());
    html! {
        @if groups.is_empty() {
            p.quiet { "nobody is known to wait for another process at this instant" }
        } @else {
            ul.arrows {
                @for ((is_alone, way, on, outside), members) in groups.iter().take(ARROWS) {
                    li.circle[!is_alone] {
                        (boxed(waits, members))
                        span.arrow { (way) span.sight { " of " } }
                        @if !on.is_empty() { (boxed(waits, on)) }
                        @if *outside {
                            @if !on.is_empty() { " or " }
                            span.box.outside { "somebody who is not watched" }
                        }
                        @if on.is_empty() && !outside { span.box.outside { "nobody: no other end is open" } }
                        @if !is_alone { " " strong.bad { "in a circle" } }
                        @if let Some(first) = members.first() {
                            (evidence("what shows it", &waits.waits[*first].evidence, moment))
                        }
                    }
                }
            }
            @if groups.len() > ARROWS { p.quiet { "and " (groups.len() - ARROWS) " more" } }
        }
        (alone(&others.collect::<Vec<_>>()))
    }
}

/// The members of a box: ranks as ranges, others by PID.
fn boxed(waits: &Waits, members: &[usize]) -> Markup {
    let all = || members.iter().filter_map(|place| waits.waits.get(*place));
    let ranks = all().filter(|it| it.is_rank).filter_map(|it| it.rank);
    let ranks = diagnose::ranges(ranks);
    let others: Vec<String> = all().filter(|it| !it.is_rank).map(name).collect();
    html! {
        span.box {
            @if !ranks.is_empty() { (ranks_words(&ranks)) " " }
            @for other in others.iter().take(NAMES) { (other) " " }
            @if others.len() > NAMES { "and " (others.len() - NAMES) " more" }
        }
    }
}

fn name(waiting: &Waiting) -> String {
    match waiting.rank {
        Some(rank) => format!("process {} (of rank {rank})", waiting.process.pid),
        None => format!("process {}", waiting.process.pid),
    }
}

fn others(count: usize) -> String {
    match count {
        1 => "one more process".to_owned(),
        _ => format!("{count} more processes"),
    }
}

/// Those that wait for nobody who is known, counted by what they do.
fn alone(waiting: &[&Waiting]) -> Markup {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for one in waiting {
        let words = if one.words.is_empty() {
            "is not known to wait"
        } else {
            &one.words
        };
        *counts.entry(words).or_default() += 1;
    }
    html! {
        @if !counts.is_empty() {
            details {
                summary { (others(waiting.len())) }
                ul { @for (words, count) in counts.iter().take(ARROWS) { li { (count) ": " (short(words)) } } }
            }
        }
    }
}
