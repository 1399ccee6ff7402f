//! Merged stacks as a tree for a terminal: who is where, the branch with most threads first.

use std::fmt::Write as _;

use diagnose::{Merged, MergedNode};

use super::text::{bold, count, safe};
use crate::ui::Ui;

/// Returns the page.
pub(crate) fn page(merged: &Merged, ui: Ui) -> String {
    let threads: usize = merged.tree.iter().map(|node| node.threads).sum();
    let mut page = format!(
        "{} at {}\n",
        count(threads, "thread", "threads"),
        count(merged.classes.len(), "place", "places")
    );
    let mut waiting: Vec<(usize, &MergedNode)> =
        merged.tree.iter().rev().map(|node| (0, node)).collect();
    while let Some((depth, node)) = waiting.pop() {
        line(&mut page, depth, node, ui);
        // Frames that all of them share stand below without saying so again: only where the path forks it goes further in.
        let mut last = node;
        while let Some(only) = only_child(last) {
            _ = writeln!(page, "{}{}", "  ".repeat(depth), safe(&only.frame));
            last = only;
        }
        let children = last.children.iter().rev();
        waiting.extend(children.map(|child| (depth + 1, child)));
    }
    page
}

/// The one frame that all that are here call.
fn only_child(node: &MergedNode) -> Option<&MergedNode> {
    match node.children.as_slice() {
        [only] if only.threads == node.threads => Some(only),
        _ => None,
    }
}

fn line(page: &mut String, depth: usize, node: &MergedNode, ui: Ui) {
    let several = node.ranks.contains([',', '-']);
    let ranks = format!("{} {}", if several { "ranks" } else { "rank" }, node.ranks);
    let who = match (node.ranks.is_empty(), node.pids.as_slice()) {
        (false, []) => ranks,
        (false, pids) => {
            let others = count(pids.len(), "other process", "other processes");
            format!("{ranks}, {others}")
        }
        (true, [pid]) => format!("process {pid}"),
        (true, pids) => count(pids.len(), "process", "processes"),
    };
    let indent = "  ".repeat(depth);
    let threads = count(node.threads, "thread", "threads");
    _ = writeln!(
        page,
        "{indent}{}  [{}, {threads}]",
        safe(&node.frame),
        bold(&who, ui.color)
    );
}
