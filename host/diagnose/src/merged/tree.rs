//! Classes to their prefix tree.

use std::collections::{BTreeMap, btree_map};

use super::Node;
use super::labels::Labels;
use super::who::{People, Spot};

#[derive(Default)]
struct Branch {
    children: BTreeMap<u32, Branch>,
    /// Those who go no further.
    own: Vec<Spot>,
}

/// A branch that is being turned into a node.
struct Open {
    label: Option<u32>,
    /// Those who are here or in what is done below.
    spots: Vec<Spot>,
    /// Those below that are still to do.
    waiting: btree_map::IntoIter<u32, Branch>,
    /// Those below that are done.
    done: Vec<Node>,
}

impl Open {
    fn of(label: Option<u32>, branch: Branch) -> Self {
        Self {
            label,
            spots: branch.own,
            waiting: branch.children.into_iter(),
            done: Vec::new(),
        }
    }
}

/// Returns the prefix tree of classes, each a place with those who are there.
pub(super) fn tree(
    labels: &Labels,
    people: &People,
    classes: Vec<(Vec<u32>, Vec<Spot>)>,
) -> Vec<Node> {
    let mut root = Branch::default();
    for (place, spots) in classes {
        let mut branch = &mut root;
        for label in place {
            branch = branch.children.entry(label).or_default();
        }
        branch.own = spots;
    }
    nodes(labels, people, root)
}

/// Turns branches into nodes, the deepest first, without a call for each level: a stack may be as deep as a capture allows.
fn nodes(labels: &Labels, people: &People, root: Branch) -> Vec<Node> {
    let mut path = vec![Open::of(None, root)];
    while let Some(open) = path.last_mut() {
        if let Some((label, branch)) = open.waiting.next() {
            path.push(Open::of(Some(label), branch));
            continue;
        }
        let Some(mut open) = path.pop() else {
            break;
        };
        open.done
            .sort_by(|one, other| (size(other), &one.frame).cmp(&(size(one), &other.frame)));
        let Some((label, above)) = open.label.zip(path.last_mut()) else {
            return open.done;
        };
        open.spots.sort_unstable();
        above
            .done
            .push(node(labels, people, label, open.done, &open.spots));
        if above.spots.is_empty() {
            above.spots = open.spots;
        } else {
            above.spots.append(&mut open.spots);
        }
    }
    Vec::new()
}

/// How much happens there: looks over time, else threads.
fn size(node: &Node) -> usize {
    node.stay.map_or(node.threads, |stay| stay.looks)
}

fn node(labels: &Labels, people: &People, label: u32, children: Vec<Node>, spots: &[Spot]) -> Node {
    let label = labels.get(label);
    let (frame, is_focus, is_library) = (label.text.clone(), label.is_focus, label.is_library);
    // Where all go on to the same frame, they are the same ones.
    if let [only] = children.as_slice()
        && size(only) == spots.len()
    {
        return Node {
            frame,
            is_focus,
            is_library,
            others: only.others.clone(),
            rank_count: only.rank_count,
            ranks: only.ranks.clone(),
            stay: only.stay,
            threads: only.threads,
            children,
        };
    }
    let who = people.who(spots);
    Node {
        children,
        frame,
        is_focus,
        is_library,
        others: who.others,
        rank_count: who.rank_count,
        ranks: who.ranks,
        stay: who.stay,
        threads: who.threads,
    }
}
