//! Which processes hold the same pipe, FIFO, socket or eventfd.

use std::collections::BTreeMap;

use model::{Endpoint, EndpointKind, Eventfd, Owner, Process};

use super::descriptor::{self, inode_of};
use super::survey::Survey;

const EVENTFD: &str = "anon_inode:[eventfd]";

/// Groups the descriptors of `processes` by the pipe or socket they are of, by target.
pub(super) fn pipes_and_sockets(processes: &[Process]) -> Vec<Endpoint> {
    let mut owners = BTreeMap::<&str, Vec<Owner>>::new();
    for process in processes {
        for descriptor in &process.proc.file_descriptors {
            let target = descriptor.target.as_str();
            if target.starts_with("pipe:[") {
                let end = descriptor::end(descriptor);
                let owner = descriptor::owner(process, descriptor, end);
                owners.entry(target).or_default().push(owner);
            } else if target.starts_with("socket:[") {
                let owner = descriptor::owner(process, descriptor, None);
                owners.entry(target).or_default().push(owner);
            }
        }
    }
    let endpoints = owners.into_iter().map(|(target, owners)| Endpoint {
        kind: target.starts_with("pipe:[").then_some(EndpointKind::Pipe),
        owners,
        target: target.to_owned(),
        ..Endpoint::default()
    });
    endpoints.collect()
}

/// Puts how full they are to pipes, and adds the FIFOs; the endpoints stay in the order of targets.
pub(super) fn complete(endpoints: &mut Vec<Endpoint>, processes: &[Process], survey: &Survey) {
    for endpoint in endpoints.iter_mut() {
        let inode = inode_of(&endpoint.target, "pipe");
        endpoint.pipe = inode.and_then(|inode| survey.pipes.get(&inode).cloned());
    }
    let mut fifos = BTreeMap::<(&str, u64), Vec<Owner>>::new();
    for process in processes {
        for descriptor in &process.proc.file_descriptors {
            let file = survey.file(process.identity, &descriptor.fd);
            if let Some(fifo) = file.filter(|file| file.is_fifo) {
                let end = descriptor::end(descriptor);
                let owner = descriptor::owner(process, descriptor, end);
                let holders = fifos.entry((&descriptor.target, fifo.inode));
                holders.or_default().push(owner);
            }
        }
    }
    endpoints.extend(fifos.into_iter().map(|((target, inode), owners)| Endpoint {
        kind: Some(EndpointKind::Fifo),
        owners,
        pipe: survey.fifos.get(&inode).cloned(),
        target: target.to_owned(),
        ..Endpoint::default()
    }));
    endpoints.sort_by(|one, other| one.target.cmp(&other.target));
}

/// Returns the eventfds that `processes` hold.
pub(super) fn eventfds(processes: &[Process]) -> Vec<Eventfd> {
    let mut shared = BTreeMap::<u64, Eventfd>::new();
    let mut single = Vec::new();
    for process in processes {
        let descriptors = &process.proc.file_descriptors;
        for descriptor in descriptors.iter().filter(|one| one.target == EVENTFD) {
            let count = descriptor::text(descriptor, "eventfd-count");
            let Some(count) = count.and_then(|count| u64::from_str_radix(count, 16).ok()) else {
                continue;
            };
            let id = descriptor::number(descriptor, "eventfd-id");
            let owner = descriptor::owner(process, descriptor, None);
            let eventfd = Eventfd {
                count,
                id,
                owners: Vec::new(),
            };
            let eventfd = if let Some(id) = id {
                shared.entry(id).or_insert(eventfd)
            } else {
                single.push(eventfd);
                single.last_mut().expect("just pushed")
            };
            eventfd.owners.push(owner);
        }
    }
    shared.into_values().chain(single).collect()
}
