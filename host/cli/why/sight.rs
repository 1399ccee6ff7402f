//! How much of a task is seen: nodes that have stored nothing for a while are told of, and judged no more.

use diagnose::{Silent, silent};
use model::Snapshot;
use store::{Key, Place, Store};

use crate::clocks;

/// Whether one of several nodes looks silent while nobody knows how its clock stands.
pub(super) fn is_any_silent(nodes: &[Vec<Snapshot>]) -> bool {
    !silent(&newest(nodes), &[]).is_empty()
}

/// Returns how far the clock of each node is taken to be ahead of the first one's, microseconds.
pub(super) async fn ahead(
    store: &Store,
    place: &Place,
    nodes: &[Vec<Snapshot>],
) -> anyhow::Result<Vec<i64>> {
    let newest = newest(nodes);
    let Some((first, rest)) = newest.split_first() else {
        return Ok(Vec::new());
    };
    let key = Key {
        place: Place {
            node: first.task.node.clone(),
            ..place.clone()
        },
        id: first.capture.id,
    };
    let others: Vec<String> = rest.iter().map(|it| it.task.node.clone()).collect();
    Ok(clocks::together(store, &key, &others).await?.ahead)
}

/// Takes the nodes out of `nodes` that are silent, and says which; `ahead` is how far their clocks are ahead of the first one's,
/// microseconds. Where that is not known they are taken as they are.
pub(super) fn take_the_silent(nodes: &mut Vec<Vec<Snapshot>>, ahead: &[i64]) -> Vec<Silent> {
    let silent = silent(&newest(nodes), ahead);
    nodes.retain(|snapshots| {
        let last = snapshots.last();
        let name = last.map(|it| it.task.node.as_str());
        silent.iter().all(|it| Some(it.node.as_str()) != name)
    });
    silent
}

fn newest(nodes: &[Vec<Snapshot>]) -> Vec<&Snapshot> {
    nodes.iter().filter_map(|it| it.last()).collect()
}
