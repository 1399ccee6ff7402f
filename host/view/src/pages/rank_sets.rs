//! The stacks of some ranks beside those of others at one instant: where only the ones are, where only the others.

use diagnose::{Both, RankSet, Selection, Side, TwoSets};
use maud::{Markup, html};
use model::{Snapshot, code_words};

use crate::answer::Trouble;
use crate::digest::short;

/// Rows that are drawn.
const ROWS: usize = 400;

/// Returns the part for `ranks`, compared with `against` or, without it, with all other ranks.
pub(super) fn compared(
    snapshots: &[&Snapshot],
    ranks: &RankSet,
    against: Option<&RankSet>,
) -> Result<Markup, Trouble> {
    let sets = TwoSets::of(snapshots, ranks, against);
    let TwoSets { one, other, there } = &sets;
    if one.is_empty() || other.is_empty() {
        let said = there.iter().copied();
        return Err(Trouble::usage(format!(
            "there are not two sets to compare at this instant: it has the ranks {}, of these {} are chosen, {} are left to \
             compare with",
            diagnose::ranges(said),
            one.len(),
            other.len()
        )));
    }
    let comparison = sets.compared(snapshots, &Selection::default());
    let names = [one, other].map(|ranks| {
        let word = if ranks.len() == 1 { "rank" } else { "ranks" };
        format!("{word} {}", short(&diagnose::ranges(ranks.iter().copied())))
    });
    Ok(html! {
        p.quiet { (names[0]) " beside " (names[1]) ": red is where only the first are, blue where only the others are" }
        @if comparison.tree.is_empty() {
            p.quiet { "no Python stack of these ranks was read at this instant" }
        } @else if !comparison.tree.iter().any(Both::differs) {
            p { "They are all at the same places." }
        }
        (tree(&comparison.tree, &mut 0))
        @for unread in &comparison.unread {
            p.quiet { "not read: " (short(&unread.ranks)) " (" (code_words(unread.code)) ")" }
        }
    })
}

/// A tree in which a chain of frames that the same threads are in is one step.
fn tree(nodes: &[Both], rows: &mut usize) -> Markup {
    html! {
        @if !nodes.is_empty() {
            ul.tree {
                @for node in nodes {
                    @if *rows < ROWS {
                        ({ *rows += 1; "" })
                        @let chain = chain(node);
                        li class=(class(node)) {
                            @if let Some(side) = &node.one { span.ranks { "[" (short(&side.ranks)) "]" } " " }
                            @if let Some(side) = &node.other { span.ranks.quiet { "[" (short(&side.ranks)) "]" } }
                            @for frame in &chain {
                                " " code.focus[frame.is_focus] { (frame.frame) }
                            }
                            @if let Some(end) = chain.last() { (tree(&end.children, rows)) }
                        }
                    }
                }
            }
        }
    }
}

fn class(node: &Both) -> &'static str {
    match (&node.one, &node.other) {
        (Some(_), None) => "more",
        (None, Some(_)) => "less",
        _ => "same",
    }
}

fn chain(node: &Both) -> Vec<&Both> {
    let threads = |node: &Both| {
        let of = |side: &Option<Side>| side.as_ref().map(|side| side.threads);
        (of(&node.one), of(&node.other))
    };
    let (mut chain, mut end) = (vec![node], node);
    while let [only] = end.children.as_slice()
        && threads(only) == threads(end)
    {
        chain.push(only);
        end = only;
    }
    chain
}
