//! Merged stacks as a tree for a terminal: who is where, the branch with most threads first.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use diagnose::{Merged, MergedNode};
use model::Timestamp;

use super::people::{self, Looked};
use super::text::{count, cut, safe};
use crate::ui::Ui;

/// Frames in a row that all share, of which none is left out.
const SHORT_CHAIN: usize = 6;
/// Of more branches than these at one frame, the largest and the smallest are shown.
const MOST_BRANCHES: usize = 12;
const LARGEST: usize = 8;
const SMALLEST: usize = 3;
/// Deeper forks are not set in further.
const DEEPEST: usize = 16;
/// The narrowest that a frame is cut to.
const NARROWEST: usize = 24;

/// What is still to be printed.
enum Row<'a> {
    Branch(usize, &'a MergedNode),
    /// So many branches with so many threads.
    LeftOut(usize, usize, usize),
}

/// Returns the page.
pub(crate) fn page(merged: &Merged, looked: &Looked, ui: Ui) -> String {
    let threads: usize = merged.tree.iter().map(|node| node.threads).sum();
    let mut page = format!(
        "{}\n{} at {}\n",
        looked.title(ui),
        count(threads, "thread", "threads"),
        count(merged.classes.len(), "place", "places")
    );
    page.push_str(&people::unread(&merged.unread));
    let times = merged.tree.iter().filter_map(|node| node.stay);
    let day = times.map(|stay| stay.last).max();
    if day.is_some() {
        page.push_str("%: of all looks at these threads, those that found them there\n");
    }
    page.push('\n');
    let mut folded = 0;
    let mut waiting = branches(0, &merged.tree);
    while let Some(row) = waiting.pop() {
        let (depth, node) = match row {
            Row::Branch(depth, node) => (depth, node),
            Row::LeftOut(depth, branches, threads) => {
                let (indent, threads) = (indent(depth), count(threads, "thread", "threads"));
                _ = writeln!(page, "{indent}… {branches} more branches, {threads}");
                folded += branches;
                continue;
            }
        };
        let chain = chain(node);
        line(&mut page, depth, node, day, ui);
        folded += below(&mut page, depth, &chain, ui);
        let last = chain[chain.len() - 1];
        waiting.extend(branches(depth + 1, &last.children));
    }
    if folded > 0 {
        page.push_str("\n… is left out here; --json has all\n");
    }
    page
}

/// The branches of a frame, the last first.
fn branches(depth: usize, nodes: &[MergedNode]) -> Vec<Row<'_>> {
    let all = |nodes: &'_ [MergedNode]| -> Vec<Row<'_>> { Vec::with_capacity(nodes.len()) };
    let mut rows = all(nodes);
    let branch = |node| Row::Branch(depth, node);
    if nodes.len() <= MOST_BRANCHES {
        rows.extend(nodes.iter().rev().map(branch));
        return rows;
    }
    let (largest, rest) = nodes.split_at(LARGEST);
    let (left_out, smallest) = rest.split_at(rest.len() - SMALLEST);
    let threads = left_out.iter().map(|node| node.threads).sum();
    rows.extend(smallest.iter().rev().map(branch));
    rows.push(Row::LeftOut(depth, left_out.len(), threads));
    rows.extend(largest.iter().rev().map(branch));
    rows
}

/// A frame with those that all who are there go on to.
fn chain(node: &MergedNode) -> Vec<&MergedNode> {
    let mut chain = vec![node];
    let mut last = node;
    while let [only] = last.children.as_slice()
        && only.threads == last.threads
        && only.stay == last.stay
    {
        chain.push(only);
        last = only;
    }
    chain
}

/// Frames that all of them share stand below without saying so again: only where the path forks it goes further in. Returns how
/// many of a long chain were left out.
fn below(page: &mut String, depth: usize, chain: &[&MergedNode], ui: Ui) -> usize {
    let shown = shown(chain.iter().map(|node| node.is_library));
    let mut folded = 0;
    let mut last = 0;
    for &index in shown.iter().filter(|index| **index > 0) {
        if let Some(between @ 1..) = index.checked_sub(last + 1) {
            _ = writeln!(
                page,
                "{}… {}",
                indent(depth),
                count(between, "frame", "frames")
            );
            folded += between;
        }
        let line = format!("{}{}", indent(depth), safe(&chain[index].frame));
        page.push_str(&fitting(&line, ui));
        page.push('\n');
        last = index;
    }
    folded
}

/// Which frames of a chain are shown: of a long one the outermost two, the innermost two, and the innermost of the job's own code
/// with its caller.
pub(super) fn shown(is_library: impl ExactSizeIterator<Item = bool>) -> BTreeSet<usize> {
    let length = is_library.len();
    if length <= SHORT_CHAIN {
        return (0..length).collect();
    }
    let own = is_library
        .enumerate()
        .filter_map(|(index, is_library)| (!is_library).then_some(index))
        .last();
    let own = own.into_iter().flat_map(|own| [own.saturating_sub(1), own]);
    let mut shown: BTreeSet<usize> = [0, 1, length - 2, length - 1]
        .into_iter()
        .chain(own)
        .collect();
    // One frame takes no more room than to say that it is left out.
    let alone = (1..length).filter(|it| shown.contains(&(it - 1)) && shown.contains(&(it + 1)));
    let alone: Vec<usize> = alone.collect();
    shown.extend(alone);
    shown
}

fn line(page: &mut String, depth: usize, node: &MergedNode, day: Option<Timestamp>, ui: Ui) {
    let who = |color| {
        let who = people::who(
            (&node.ranks, node.rank_count),
            &node.others,
            node.threads,
            color,
        );
        match node.stay.zip(day) {
            Some((stay, day)) => format!("{who}, {}", people::stay(&stay, node.threads, day)),
            None => who,
        }
    };
    let frame = format!("{}{}", indent(depth), safe(&node.frame));
    page.push_str(&with_who(&frame, &who(false), &who(ui.color), ui));
    page.push('\n');
}

/// A frame with who is there in brackets. On a terminal a wrapped line breaks the tree: there the frame is cut, never who.
pub(super) fn with_who(frame: &str, plain: &str, shown: &str, ui: Ui) -> String {
    let room = ui.width.saturating_sub(plain.chars().count() + 4);
    if ui.terminal {
        format!("{}  [{shown}]", cut(frame, room.max(NARROWEST)))
    } else {
        format!("{frame}  [{shown}]")
    }
}

/// A line that fits a terminal; in a pipe nothing is lost.
pub(super) fn fitting(line: &str, ui: Ui) -> String {
    if ui.terminal {
        cut(line, ui.width)
    } else {
        line.to_owned()
    }
}

pub(super) fn indent(depth: usize) -> String {
    "  ".repeat(depth.min(DEEPEST))
}

#[cfg(test)]
mod tests;
