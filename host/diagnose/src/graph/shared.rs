//! Futexes that processes share: semaphores, locks and barriers in shared memory.

use std::collections::HashMap;

use super::{Edge, EdgeKind};
use crate::case::Case;

pub(super) type Shared<'a> = HashMap<(usize, &'a str), Vec<usize>>;

/// The processes that wait for a futex which others can use too, by node and address. Forked processes share addresses.
pub(super) fn shared_futexes<'a>(case: &Case<'a>) -> Shared<'a> {
    let mut shared: Shared<'a> = HashMap::new();
    for (node, it) in case.nodes.iter().enumerate() {
        for futex in it
            .newest()
            .ipc
            .futexes
            .iter()
            .filter(|futex| !futex.private)
        {
            if let Some(actor) = case.find(node, futex.identity) {
                shared
                    .entry((node, futex.address.as_str()))
                    .or_default()
                    .push(actor);
            }
        }
    }
    shared
}

/// A futex that processes share: all that map memory together with the waiting one, and do not wait for it themselves, could
/// wake it.
pub(super) fn shared_futex(
    case: &Case<'_>,
    shared: &Shared<'_>,
    actor: usize,
    address: &str,
) -> Option<Edge> {
    let it = &case.actors[actor];
    let newest = case.nodes[it.node].newest();
    let waiting = shared.get(&(it.node, address))?;
    let mut wakers = Vec::new();
    let mut is_mapped = false;
    let mut evidence = Vec::new();
    let futexes = &newest.ipc.futexes;
    if let Some(index) = futexes
        .iter()
        .position(|futex| futex.identity == it.process.identity && futex.address == address)
    {
        evidence.extend(case.cite_newest(it.node, &format!("/ipc/futexes/{index}/address")));
    }
    for (index, file) in newest.ipc.shared_memory.iter().enumerate() {
        let maps = |mapping: &&model::SharedMapping| mapping.identity == it.process.identity;
        if file.mapped.iter().any(|mapping| maps(&mapping)) {
            is_mapped = true;
            let mapped = file
                .mapped
                .iter()
                .filter_map(|it_| case.find(it.node, it_.identity));
            wakers.extend(mapped.filter(|other| !waiting.contains(other)));
            evidence
                .extend(case.cite_newest(it.node, &format!("/ipc/shared_memory/{index}/mapped")));
        }
    }
    // Who else maps it is not known where the maps of a process could not be read, or the memory itself was not seen.
    let mut gaps = newest.gaps.iter();
    let is_unread = gaps.any(|gap| {
        gap.what
            .split(',')
            .any(|what| matches!(what, "ipc" | "ipc/maps"))
    });
    let outside = is_unread || !is_mapped;
    evidence.truncate(2);
    wakers.sort_unstable();
    wakers.dedup();
    Some(Edge {
        kind: EdgeKind::Shared,
        outside,
        wakers,
        evidence,
    })
}
