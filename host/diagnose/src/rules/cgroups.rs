//! The cgroups of a snapshot, each with the pointer to it.

use model::{CgroupLevel, Snapshot};

/// Returns the cgroups of the main process and those that other processes were moved to.
pub(crate) fn levels(snapshot: &Snapshot) -> Vec<(String, &CgroupLevel)> {
    let own = snapshot.cgroup.chain.iter().enumerate();
    let own = own.map(|(index, level)| (format!("/cgroup/chain/{index}"), level));
    let others = snapshot.cgroup.others.iter().enumerate();
    let others = others.flat_map(|(other, it)| {
        let chain = it.chain.iter().enumerate();
        chain.map(move |(index, level)| (format!("/cgroup/others/{other}/chain/{index}"), level))
    });
    own.chain(others).collect()
}
