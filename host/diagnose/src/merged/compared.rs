//! Two merged trees side by side: two sets of ranks at one instant, or the same ones at two.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::{Merged, Node, Others, Stay, Unread};

/// Two merged trees as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The frames of both, outermost first.
    pub tree: Vec<Both>,
    /// Those of either whose stacks were not read: they may be anywhere.
    pub unread: Vec<Unread>,
}

/// One frame of the one tree, of the other, or of both, with what is below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Both {
    /// What it calls in either, the largest first.
    pub children: Vec<Both>,
    /// The frame.
    pub frame: String,
    /// Whether its file is in focus.
    pub is_focus: bool,
    /// Whether it is of an installed package or of Python's own library.
    pub is_library: bool,
    /// Who of the one is here or below; absent where nobody is.
    pub one: Option<Side>,
    /// Who of the other is here or below; absent where nobody is.
    pub other: Option<Side>,
}

/// Who is at a frame in one of two trees, as in [`Node`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Side {
    /// Those who have no rank.
    pub others: Vec<Others>,
    /// How many ranks.
    pub rank_count: usize,
    /// The ranks.
    pub ranks: String,
    /// How much of the time, where they were looked at more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stay: Option<Stay>,
    /// How many threads.
    pub threads: usize,
}

/// A frame of the one tree and the same of the other.
type Pair<'a> = (Option<&'a Node>, Option<&'a Node>);

impl Comparison {
    /// Lays `one` and `other` over each other; frames are the same where their texts are.
    pub fn of(one: &Merged, other: &Merged) -> Self {
        Self {
            tree: laid_over(&one.tree, &other.tree),
            unread: [one.unread.as_slice(), &other.unread].concat(),
        }
    }
}

/// Pairs frames from the outermost on, without a call for each level.
fn laid_over(one: &[Node], other: &[Node]) -> Vec<Both> {
    let mut path = vec![Open::of(None, one, other)];
    while let Some(open) = path.last_mut() {
        if let Some((mine, theirs)) = open.waiting.next() {
            let pair = Some((mine, theirs));
            path.push(Open::of(pair, below(mine), below(theirs)));
            continue;
        }
        let Some(open) = path.pop() else {
            break;
        };
        let Some((pair, above)) = open.pair.zip(path.last_mut()) else {
            return open.done;
        };
        above.done.extend(Both::of(pair, open.done));
    }
    Vec::new()
}

impl Both {
    fn of((one, other): Pair<'_>, children: Vec<Self>) -> Option<Self> {
        let node = one.or(other)?;
        let either = |holds: fn(&Node) -> bool| one.is_some_and(holds) || other.is_some_and(holds);
        Some(Self {
            children,
            frame: node.frame.clone(),
            is_focus: either(|node| node.is_focus),
            is_library: either(|node| node.is_library),
            one: one.map(Side::of),
            other: other.map(Side::of),
        })
    }

    /// Returns whether here or further in one of the two has a frame that the other has not.
    pub fn differs(&self) -> bool {
        let mut waiting = vec![self];
        while let Some(node) = waiting.pop() {
            if node.one.is_none() || node.other.is_none() {
                return true;
            }
            waiting.extend(&node.children);
        }
        false
    }
}

impl Side {
    fn of(node: &Node) -> Self {
        Self {
            others: node.others.clone(),
            rank_count: node.rank_count,
            ranks: node.ranks.clone(),
            stay: node.stay,
            threads: node.threads,
        }
    }
}

/// What a frame of one tree calls.
fn below(node: Option<&Node>) -> &[Node] {
    node.map_or(&[], |node| &node.children)
}

/// A pair whose children are being paired.
struct Open<'a> {
    pair: Option<Pair<'a>>,
    waiting: std::vec::IntoIter<Pair<'a>>,
    done: Vec<Both>,
}

impl<'a> Open<'a> {
    fn of(pair: Option<Pair<'a>>, one: &'a [Node], other: &'a [Node]) -> Self {
        let mut by_frame: BTreeMap<&str, Pair<'a>> = BTreeMap::new();
        for node in one {
            by_frame.entry(&node.frame).or_default().0 = Some(node);
        }
        for node in other {
            by_frame.entry(&node.frame).or_default().1 = Some(node);
        }
        let mut pairs: Vec<Pair<'a>> = by_frame.into_values().collect();
        let threads = |node: Option<&Node>| node.map_or(0, |node| node.threads);
        // The order by frame stays where they are as many.
        pairs.sort_by_key(|(one, other)| Reverse(threads(*one) + threads(*other)));
        Self {
            pair,
            waiting: pairs.into_iter(),
            done: Vec::new(),
        }
    }
}
