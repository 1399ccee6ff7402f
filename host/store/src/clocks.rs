//! How the clocks of all nodes stand to that of the first, told by what pairs of them saw (`alignment.rs`).
//!
//! The bounds of a pair are differences: "the clock of B is at most so far ahead of that of A". Bounds of pairs add up along
//! a path of nodes, so the least and the most of a node are shortest paths from the first node and back to it (Bellman and
//! Ford). What is taken for an order lies halfway, and such halves fit all that was seen of any pair: of two
//! snapshots of which one certainly came first, that one is first in the order.

use std::collections::{BTreeMap, BTreeSet};

use model::Timestamp;

use crate::alignment::{Addresses, Offset, Sightings};

/// How the clock of one node stands to that of the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// How far it is taken to be ahead where an order is needed, microseconds: halfway between the bounds, or as near to 0
    /// as the one that is known allows.
    pub ahead: i64,
    /// How far it is certainly ahead.
    pub offset: Offset,
}

impl Clock {
    /// Returns `time` of this clock as the first node's shows it, microseconds since 1970.
    pub fn common(&self, time: Timestamp) -> i64 {
        time.as_microseconds().saturating_sub(self.ahead)
    }
}

/// The clock of `to` is ahead of that of `from` by `most` microseconds at most.
#[derive(Clone, Copy)]
struct Bound {
    from: usize,
    to: usize,
    most: i64,
}

/// Returns the clock of each node. Bounds of several nodes that contradict each other, as when a clock was set meanwhile,
/// count only between the first node and each other.
pub(crate) fn clocks(nodes: &[&Sightings]) -> Vec<Clock> {
    let mut bounds = bounds(nodes);
    let (most, least) = loop {
        let back: Vec<Bound> = bounds.iter().map(Bound::reversed).collect();
        if let (Some(most), Some(back)) =
            (nearest(nodes.len(), &bounds), nearest(nodes.len(), &back))
        {
            let least = back.into_iter().map(|it| it.map(|most| -most));
            break (most, least.collect::<Vec<_>>());
        }
        bounds.retain(|bound| bound.from == 0 || bound.to == 0);
    };
    let ahead = ahead(&bounds, &least, &most);
    let offsets = least.into_iter().zip(most);
    let offsets = offsets.map(|(least, most)| Offset { least, most });
    let clocks = ahead.into_iter().zip(offsets);
    clocks
        .map(|(ahead, offset)| Clock { ahead, offset })
        .collect()
}

impl Bound {
    fn reversed(&self) -> Self {
        Self {
            from: self.to,
            to: self.from,
            most: self.most,
        }
    }
}

/// Returns what each pair of nodes with a common connection says.
fn bounds(nodes: &[&Sightings]) -> Vec<Bound> {
    let mut seen_by: BTreeMap<Addresses, Vec<usize>> = BTreeMap::new();
    for (node, sightings) in nodes.iter().enumerate() {
        for addresses in sightings.addresses() {
            seen_by.entry(addresses).or_default().push(node);
        }
    }
    let mut pairs = BTreeSet::new();
    for ((local, remote), ours) in &seen_by {
        for &theirs in seen_by.get(&(*remote, *local)).into_iter().flatten() {
            pairs.extend(
                ours.iter()
                    .filter(|&&our| our < theirs)
                    .map(|&our| (our, theirs)),
            );
        }
    }
    let mut bounds = Vec::new();
    for (from, to) in pairs {
        let offset = nodes[from].offset(nodes[to]);
        bounds.extend(offset.most.map(|most| Bound { from, to, most }));
        let back = |least: i64| Bound {
            from: to,
            to: from,
            most: -least,
        };
        bounds.extend(offset.least.map(back));
    }
    bounds
}

/// Returns how far each clock is at most ahead of the first, `None` where nothing tells; nothing where the bounds contradict
/// each other.
fn nearest(count: usize, bounds: &[Bound]) -> Option<Vec<Option<i64>>> {
    let mut known = vec![None; count];
    *known.first_mut()? = Some(0_i64);
    // A shortest path has fewer steps than there are nodes.
    for _ in 0..count {
        let mut is_settled = true;
        for bound in bounds {
            let Some(from) = known[bound.from] else {
                continue;
            };
            let most = from.saturating_add(bound.most);
            if known[bound.to].is_none_or(|known| most < known) {
                known[bound.to] = Some(most);
                is_settled = false;
            }
        }
        if is_settled {
            return Some(known);
        }
    }
    None
}

/// Returns what is taken for each clock: within all `bounds`.
fn ahead(bounds: &[Bound], least: &[Option<i64>], most: &[Option<i64>]) -> Vec<i64> {
    let known = least.iter().zip(most);
    let first_guess = known.map(|bounds| match bounds {
        (Some(least), Some(most)) => least + (most - least) / 2,
        (Some(least), None) => 0.max(*least),
        (None, Some(most)) => 0.min(*most),
        (None, None) => 0,
    });
    let mut ahead: Vec<i64> = first_guess.collect();
    // Those that have both bounds fit each other. The others move away from 0, as far as they must.
    for _ in 0..ahead.len() {
        let mut is_settled = true;
        for bound in bounds {
            let room = ahead[bound.from].saturating_add(bound.most) - ahead[bound.to];
            if room >= 0 {
                continue;
            }
            if most[bound.from].is_none() && least[bound.from].is_some() {
                ahead[bound.from] -= room;
                is_settled = false;
            } else if least[bound.to].is_none() {
                ahead[bound.to] += room;
                is_settled = false;
            }
        }
        if is_settled {
            break;
        }
    }
    ahead
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::TcpFacts;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000;

    /// What nodes see of connections between pairs of them, on which the first of a pair sends 1 kB each second. Each looks
    /// at its own times, by the true clock; its own is ahead by `ahead`.
    fn seen(ahead: &[i64], pairs: &[(usize, usize)], looks: &[Vec<i64>]) -> Vec<Sightings> {
        let address = |node: usize| format!("10.0.0.{}:29500", node + 1);
        let mut nodes = vec![Sightings::default(); ahead.len()];
        for &(sender, receiver) in pairs {
            for (here, there) in [(sender, receiver), (receiver, sender)] {
                for &at in &looks[here] {
                    let bytes = u64::try_from(at / SECOND * 1000).unwrap();
                    let is_sender = here == sender;
                    let facts = TcpFacts {
                        bytes_acknowledged: Some(if is_sender { bytes } else { 0 }),
                        bytes_received: Some(if is_sender { 0 } else { bytes }),
                        local: address(here),
                        remote: address(there),
                        ..TcpFacts::default()
                    };
                    let shown = Timestamp::from_microseconds(at + ahead[here]).unwrap();
                    nodes[here].add((shown, shown), "socket:[1]", &facts);
                }
            }
        }
        nodes
    }

    fn found(nodes: &[Sightings]) -> Vec<Clock> {
        clocks(&nodes.iter().collect::<Vec<_>>())
    }

    #[test]
    fn nodes_that_share_nothing_with_the_first_are_told_by_those_between() {
        let hour = 3600 * SECOND;
        let ahead = [0, hour, -5 * hour, 7 * SECOND];
        let looks: Vec<i64> = (0..5).map(|turn| turn * 10 * SECOND).collect();
        let chain = found(&seen(&ahead, &[(0, 1), (1, 2)], &vec![looks; 4]));
        for (clock, truth) in chain.iter().zip(ahead).take(3) {
            let (least, most) = (clock.offset.least.unwrap(), clock.offset.most.unwrap());
            assert!((least..=most).contains(&truth), "{clock:?} {truth}");
            assert!(
                (clock.ahead - truth).abs() < 30 * SECOND,
                "{clock:?} {truth}"
            );
        }
        assert_eq!(chain[3], Clock::default());
        assert_eq!(chain[0].offset.most, Some(0));
    }

    #[test]
    fn where_others_contradict_each_other_what_the_first_saw_stands() {
        let looks: Vec<i64> = (0..5).map(|turn| turn * 10 * SECOND).collect();
        let pairs = [(0, 1), (1, 2), (0, 2)];
        let mut nodes = seen(&[0, SECOND, 2 * SECOND], &pairs, &vec![looks.clone(); 3]);
        // What 1 and 2 see of each other is of a time when the clock of 2 was an hour wrong.
        let wrong = seen(&[0, SECOND, 3600 * SECOND], &[(1, 2)], &vec![looks; 3]);
        let between = |node: usize, other: usize| {
            let address = |node: usize| format!("10.0.0.{}:29500", node + 1).parse().unwrap();
            (address(node), address(other))
        };
        for (node, other) in [(1, 2), (2, 1)] {
            nodes[node].replace(between(node, other), &wrong[node]);
        }
        let clocks = found(&nodes);
        assert!(
            (clocks[1].ahead - SECOND).abs() <= 10 * SECOND,
            "{clocks:?}"
        );
        assert!(
            (clocks[2].ahead - 2 * SECOND).abs() <= 10 * SECOND,
            "{clocks:?}"
        );
    }

    proptest! {
        #[test]
        fn the_truth_is_within_the_bounds_and_what_is_taken_fits_every_pair(
            ahead in prop::collection::vec(-100 * SECOND..100 * SECOND, 5),
            pairs in prop::collection::btree_set((0..5_usize, 0..5_usize), 0..8),
            looks in prop::collection::vec(prop::collection::vec(0..500 * SECOND, 0..4), 5),
        ) {
            let pairs: Vec<_> = pairs.into_iter().filter(|(a, b)| a < b).collect();
            let nodes = seen(&ahead, &pairs, &looks);
            let clocks = found(&nodes);
            for (clock, of_node) in clocks.iter().zip(&ahead) {
                let truth = of_node - ahead[0];
                prop_assert!(clock.offset.least.is_none_or(|least| least <= truth), "{clock:?} {truth}");
                prop_assert!(clock.offset.most.is_none_or(|most| most >= truth), "{clock:?} {truth}");
            }
            for bound in bounds(&nodes.iter().collect::<Vec<_>>()) {
                let apart = clocks[bound.to].ahead - clocks[bound.from].ahead;
                prop_assert!(apart <= bound.most, "{apart} {}", bound.most);
            }
        }
    }
}
