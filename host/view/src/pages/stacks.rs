//! The stacks of all ranks and threads as one: as a flame graph, as a tree, and what changed since another instant.

use std::collections::HashMap;

use diagnose::{Class, Merged, MergedNode, Selection};
use maud::{Markup, html};
use model::{Snapshot, Timestamp};

use super::rank_sets;
use super::trouble::gaps;
use crate::answer::Trouble;
use crate::digest::short;
use crate::moment::{Moment, readable};
use crate::query::Query;
use crate::shelf::Loaded;
use crate::view::View;
use crate::work::Work;

/// Frames that are drawn; narrower ones are left out.
const FRAMES: usize = 1500;
/// A frame that has less of the whole width is left out, percent.
const NARROWEST: f64 = 0.15;
/// Rows of the tree and of the list of changes.
const ROWS: usize = 400;
/// Height of a frame, pixels.
const HEIGHT: usize = 20;

/// One frame of the flame graph, in percent of the width.
struct Cell<'a> {
    depth: usize,
    from: f64,
    node: &'a MergedNode,
    width: f64,
    /// Threads more than at the other instant.
    more: Option<i64>,
}

/// Returns the part.
pub(crate) async fn stacks(view: &View, moment: &Moment, query: &Query) -> Result<Markup, Trouble> {
    let loaded = moment.snapshots(&view.shelf).await;
    let is_large = Work::is_large(readable(&loaded));
    if let Some(ranks) = query.ranks.clone() {
        let against = query.against.clone();
        let compare = move || -> Result<Markup, Trouble> {
            let compared = rank_sets::compared(&readable(&loaded), &ranks, against.as_ref())?;
            Ok(html! { (compared) (gaps(&loaded)) })
        };
        return view.drawn(is_large, compare).await?;
    }
    let before = match query.with {
        Some(at) => {
            let moment = View::moment(&moment.run, at, query.node.as_deref())?;
            Some((moment.at, moment.snapshots(&view.shelf).await))
        }
        None => None,
    };
    view.drawn(is_large, move || drawn(&loaded, before.as_ref()))
        .await
}

fn drawn(loaded: &[Loaded], before: Option<&(Timestamp, Vec<Loaded>)>) -> Markup {
    let now = merged(&readable(loaded));
    let before = before.map(|(at, loaded)| (*at, merged(&readable(loaded))));
    let threads: usize = now.tree.iter().map(|node| node.threads).sum();
    html! {
        @if now.tree.is_empty() {
            p.quiet { "no Python stack was read at this instant" }
        } @else {
            p.quiet {
                (threads) @if threads == 1 { " thread" } @else { " threads" } " at " (now.classes.len())
                @if now.classes.len() == 1 { " place" } @else { " places" }
                @if let Some((at, _)) = &before { ", compared with " (at.human()) " UTC: red has more, blue has fewer" }
            }
            (flame(&now, before.as_ref().map(|(_, merged)| merged), threads))
            @if let Some((_, before)) = &before { (changes(&now, before)) }
            details {
                summary { "as a tree" }
                (tree(&now.tree, &mut 0))
            }
        }
        (gaps(loaded))
    }
}

fn merged(snapshots: &[&Snapshot]) -> Merged {
    Merged::of(snapshots, &Selection::default())
}

fn flame(now: &Merged, before: Option<&Merged>, threads: usize) -> Markup {
    let known = before.map(counts);
    let mut cells = Vec::new();
    let mut waiting: Vec<(usize, f64, &[MergedNode], Vec<&str>)> =
        vec![(0, 0.0, &now.tree, Vec::new())];
    while let Some((depth, mut from, nodes, path)) = waiting.pop() {
        for node in nodes {
            let width = share(node.threads, threads);
            let mut path = path.clone();
            path.push(&node.frame);
            if width >= NARROWEST && cells.len() < FRAMES {
                let more = known.as_ref().map(|known| {
                    let then = known.get(&path).copied().unwrap_or(0);
                    whole(node.threads) - whole(then)
                });
                cells.push(Cell {
                    depth,
                    from,
                    node,
                    width,
                    more,
                });
                waiting.push((depth + 1, from, &node.children, path));
            }
            from += width;
        }
    }
    let deepest = cells.iter().map(|cell| cell.depth).max().unwrap_or(0);
    html! {
        svg.flame role="img" aria-label="flame graph, outermost frames on top; the tree below has the same" width="100%" height=((deepest + 1) * HEIGHT) {
            @for cell in &cells {
                svg x={ (cell.from) "%" } y=(cell.depth * HEIGHT) width={ (cell.width) "%" } height=(HEIGHT - 1) {
                    title { (cell.node.frame) ": " (cell.node.threads) " threads" @if !cell.node.ranks.is_empty() { ", ranks " (short(&cell.node.ranks)) } }
                    rect class={ "frame " (class(cell)) } width="100%" height="100%" {}
                    @if cell.width > 3.0 {
                        text x="4" y="14" { (cell.node.frame) @if !cell.node.ranks.is_empty() { " [" (cell.node.ranks) "]" } }
                    }
                }
            }
        }
    }
}

fn class(cell: &Cell<'_>) -> &'static str {
    match cell.more {
        Some(1..) => "more",
        Some(..=-1) => "less",
        Some(0) => "same",
        None if cell.node.is_focus => "focus",
        None if cell.depth.is_multiple_of(2) => "even",
        None => "odd",
    }
}

#[expect(clippy::cast_precision_loss, reason = "a width on a screen")]
fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64 * 100.0
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// How many threads are at each frame of a tree, by its path.
fn counts(merged: &Merged) -> HashMap<Vec<&str>, usize> {
    let mut counts = HashMap::new();
    let mut waiting: Vec<(&MergedNode, Vec<&str>)> =
        merged.tree.iter().map(|node| (node, Vec::new())).collect();
    while let Some((node, mut path)) = waiting.pop() {
        path.push(&node.frame);
        waiting.extend(node.children.iter().map(|child| (child, path.clone())));
        counts.insert(path, node.threads);
    }
    counts
}

/// Who was elsewhere at the other instant.
fn changes(now: &Merged, before: &Merged) -> Markup {
    let by_frames = |merged: &'_ Merged| -> HashMap<Vec<String>, Class> {
        let classes = merged.classes.iter();
        classes
            .map(|class| (class.frames.clone(), class.clone()))
            .collect()
    };
    let (then, here) = (by_frames(before), by_frames(now));
    let mut rows: Vec<(&Class, i64)> = now
        .classes
        .iter()
        .map(|class| {
            let then = then.get(&class.frames).map_or(0, |it| whole(it.threads));
            (class, whole(class.threads) - then)
        })
        .chain(
            before
                .classes
                .iter()
                .filter(|class| !here.contains_key(&class.frames))
                .map(|class| (class, -whole(class.threads))),
        )
        .filter(|(_, more)| *more != 0)
        .collect();
    rows.sort_by_key(|(class, more)| (std::cmp::Reverse(more.abs()), class.frames.clone()));
    html! {
        @if rows.is_empty() {
            p { "Every thread is where it was." }
        } @else {
            div.wide tabindex="0" { table {
                thead { tr { th { "innermost frames" } th.number { "threads" } th { "ranks" } } }
                tbody {
                    @for (class, more) in rows.iter().take(ROWS) {
                        tr {
                            td { code { (innermost(class)) } }
                            td.number { @if *more > 0 { "+" } (more) }
                            td { (short(&class.ranks)) }
                        }
                    }
                }
            } }
        }
    }
}

fn innermost(class: &Class) -> String {
    let frames = class.frames.iter().rev().take(3);
    let frames: Vec<&str> = frames.map(String::as_str).collect();
    short(&frames.join(" < "))
}

/// A tree in which a chain of frames that all go on together is one step.
fn tree(nodes: &[MergedNode], rows: &mut usize) -> Markup {
    html! {
        ul.tree {
            @for node in nodes {
                @if *rows < ROWS {
                    ({ *rows += 1; "" })
                    @let (chain, end) = chain(node);
                    li {
                        span.count { (node.threads) }
                        @if !node.ranks.is_empty() { " " span.ranks { "[" (short(&node.ranks)) "]" } }
                        @for frame in &chain {
                            " " code.focus[frame.is_focus] { (frame.frame) }
                        }
                        @if !end.children.is_empty() { (tree(&end.children, rows)) }
                    }
                }
            }
        }
    }
}

fn chain(node: &MergedNode) -> (Vec<&MergedNode>, &MergedNode) {
    let (mut frames, mut end) = (vec![node], node);
    while let [only] = end.children.as_slice()
        && only.threads == end.threads
    {
        frames.push(only);
        end = only;
    }
    (frames, end)
}
