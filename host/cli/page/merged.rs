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
        // Where the path does not fork, it is not indented further: stacks are deeper than terminals are wide.
        let depth = if node.children.len() == 1 && is_whole(node) {
            depth
        } else {
            depth + 1
        };
        waiting.extend(node.children.iter().rev().map(|child| (depth, child)));
    }
    page
}

/// Whether all that are here are in the one frame below.
fn is_whole(node: &MergedNode) -> bool {
    node.children
        .first()
        .is_some_and(|child| child.threads == node.threads)
}

fn line(page: &mut String, depth: usize, node: &MergedNode, ui: Ui) {
    let who = match (node.ranks.is_empty(), node.pids.as_slice()) {
        (false, []) => format!("ranks {}", node.ranks),
        (false, pids) => format!(
            "ranks {}, {}",
            node.ranks,
            count(pids.len(), "other process", "other processes")
        ),
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
