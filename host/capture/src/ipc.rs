//! The `ipc` object of a snapshot: which processes hold the same pipe or socket.

use std::collections::BTreeMap;

use model::{Endpoint, Ipc, Owner, Process};

/// Groups the descriptors of `processes` by the pipe or socket they are of.
pub(crate) fn of(processes: &[Process]) -> Ipc {
    let mut owners = BTreeMap::<&str, Vec<Owner>>::new();
    for process in processes {
        for descriptor in &process.proc.file_descriptors {
            if is_endpoint(&descriptor.target) {
                owners.entry(&descriptor.target).or_default().push(Owner {
                    fd: descriptor.fd.clone(),
                    identity: process.identity,
                    pid: process.pid,
                });
            }
        }
    }
    let endpoints = owners.into_iter().map(|(target, owners)| Endpoint {
        owners,
        target: target.to_owned(),
    });
    Ipc {
        endpoints: endpoints.collect(),
    }
}

fn is_endpoint(target: &str) -> bool {
    target.starts_with("pipe:[") || target.starts_with("socket:[")
}
