//! Two sets of ranks side by side, as a tree: what the one has and the other has not, and where they part.

use std::fmt::Write as _;

use diagnose::{Both, Comparison, Side};

use super::merged::{fitting, indent, shown, with_who};
use super::people::{self, Looked};
use super::text::{bold, count, red, safe, yellow};
use crate::ui::Ui;

/// Returns the page; the two have names.
pub(crate) fn page(
    comparison: &Comparison,
    looked: &Looked,
    (one, other): (&str, &str),
    ui: Ui,
) -> String {
    let mut page = format!(
        "{}\nA  {}\nB  {}\n",
        looked.title(ui),
        bold(&safe(one), ui.color),
        bold(&safe(other), ui.color)
    );
    page.push_str(&people::unread(&comparison.unread));
    let (differing, alike): (Vec<&Both>, Vec<&Both>) =
        comparison.tree.iter().partition(|both| both.differs());
    if comparison.tree.is_empty() {
        page.push_str("\nNeither has a Python stack.\n");
    } else if differing.is_empty() {
        page.push_str("\nBoth are at the same places.\n");
    }
    if !differing.is_empty() {
        page.push('\n');
    }
    let mut waiting: Vec<(usize, &Both)> = differing.into_iter().rev().map(|it| (0, it)).collect();
    while let Some((depth, both)) = waiting.pop() {
        let chain = chain(both);
        lines(&mut page, depth, &chain, ui);
        let last = chain[chain.len() - 1];
        waiting.extend(last.children.iter().rev().map(|below| (depth + 1, below)));
    }
    if !alike.is_empty() {
        page.push_str("\nin both\n");
    }
    for both in alike {
        let chain = chain(both);
        let telling = chain.iter().rfind(|both| !both.is_library);
        let frame = &telling.or(chain.last()).unwrap_or(&both).frame;
        let threads = |side: Option<&Side>| side.map_or(0, |side| side.threads);
        let (mine, theirs) = (threads(both.one.as_ref()), threads(both.other.as_ref()));
        let mine = count(mine, "thread", "threads");
        let line = format!("   {}  [A: {mine}, B: {theirs}]", safe(frame));
        page.push_str(&fitting(&line, ui));
        page.push('\n');
    }
    page
}

/// A frame with those that all who are there, of either, go on to.
fn chain(both: &Both) -> Vec<&Both> {
    let mut chain = vec![both];
    let mut last = both;
    let threads = |side: &Option<Side>| side.as_ref().map(|side| side.threads);
    while let [only] = last.children.as_slice()
        && threads(&only.one) == threads(&last.one)
        && threads(&only.other) == threads(&last.other)
    {
        chain.push(only);
        last = only;
    }
    chain
}

fn lines(page: &mut String, depth: usize, chain: &[&Both], ui: Ui) {
    let first = chain[0];
    let (mark, paint): (&str, fn(&str, bool) -> String) = match (&first.one, &first.other) {
        (Some(_), None) => ("A", red),
        (None, Some(_)) => ("B", yellow),
        _ => (" ", |text, _| text.to_owned()),
    };
    let start = format!("{mark}  {}", indent(depth));
    let who = |color| who(first, color);
    let frame = format!("{start}{}", safe(&first.frame));
    let line = with_who(&frame, &who(false), &who(false), ui);
    _ = writeln!(page, "{}", paint(&line, ui.color));
    let mut last = 0;
    let shown = shown(chain.iter().map(|both| both.is_library));
    for &index in shown.iter().filter(|index| **index > 0) {
        if let Some(between @ 1..) = index.checked_sub(last + 1) {
            _ = writeln!(page, "{start}… {}", count(between, "frame", "frames"));
        }
        let line = fitting(&format!("{start}{}", safe(&chain[index].frame)), ui);
        _ = writeln!(page, "{}", paint(&line, ui.color));
        last = index;
    }
}

fn who(both: &Both, color: bool) -> String {
    let who = |side: &Side| {
        let of = (side.ranks.as_str(), side.rank_count);
        people::who(of, &side.others, side.threads, color)
    };
    match (&both.one, &both.other) {
        (Some(one), Some(other)) => format!("A: {}; B: {}", who(one), who(other)),
        (Some(one), None) | (None, Some(one)) => who(one),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests;
