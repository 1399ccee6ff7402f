//! Whoever watches several descriptors waits for any of them: for a server, a loop of asyncio, a selector.

use std::collections::BTreeMap;

use model::{EndpointKind, FileDescriptor};

use super::{Edge, EdgeKind, of_target, target_of};
use crate::case::{Case, Fate};
use crate::verdict::Evidence;

/// The descriptors that an epoll watches, as `/proc/PID/fdinfo/FD` lists them (`tfd`), and what shows it; nothing where that
/// was not read.
pub(crate) fn watched(case: &Case<'_>, actor: usize, epoll: i32) -> Option<(Vec<i32>, Evidence)> {
    let number = epoll.to_string();
    let mut descriptors = case.actors[actor].process.proc.file_descriptors.iter();
    let index = descriptors.position(|it| it.fd == number)?;
    let descriptor: &FileDescriptor = &case.actors[actor].process.proc.file_descriptors[index];
    let info = descriptor.info.as_ref()?;
    let fds = targets(info)?;
    let path = format!("proc/file_descriptors/{index}/info");
    Some((fds, case.cite(actor, &path)?))
}

/// The numbers of the lines `tfd`; nothing where one cannot be read, or where there is none.
fn targets(info: &BTreeMap<String, String>) -> Option<Vec<i32>> {
    let lines = info
        .iter()
        .filter(|(key, _)| *key == "tfd" || key.starts_with("tfd#"));
    let fds: Option<Vec<i32>> = lines
        .map(|(_, line)| line.split_whitespace().next()?.parse().ok())
        .collect();
    fds.filter(|fds| !fds.is_empty())
}

/// Any of those at the other ends of these descriptors could wake who waits for them; who is not watched as well, where one of
/// them is not known or leads to somebody else.
pub(super) fn events(case: &Case<'_>, actor: usize, fds: &[i32], is_timed: bool) -> Edge {
    let mut edge = Edge {
        kind: EdgeKind::Events,
        wakers: Vec::new(),
        outside: is_timed,
        evidence: Vec::new(),
    };
    for fd in fds {
        match (ends_with(case, actor, *fd), target_of(case, actor, *fd)) {
            (Some(child), _) => edge.wakers.push(child),
            (None, Some(target)) => add(case, actor, &target, &mut edge),
            (None, None) => edge.outside = true,
        }
    }
    edge.wakers.sort_unstable();
    edge.wakers.dedup();
    // Its own threads wake it where nobody else can; else the others are what tells.
    if edge.wakers.len() > 1 {
        edge.wakers.retain(|waker| *waker != actor);
    }
    edge
}

/// The process whose end a descriptor tells (`pidfd_open(2)`; `Pid` of its `fdinfo`).
fn ends_with(case: &Case<'_>, actor: usize, fd: i32) -> Option<usize> {
    let number = fd.to_string();
    let it = &case.actors[actor];
    let mut descriptors = it.process.proc.file_descriptors.iter();
    let descriptor = descriptors.find(|it| it.fd == number)?;
    let pid = descriptor.info.as_ref()?.get("Pid")?.trim().parse::<i32>();
    let children = it.children.iter().copied();
    let mut alive = children.filter(|child| case.actors[*child].fate == Fate::Alive);
    alive.find(|child| Ok(case.actors[*child].process.pid) == pid)
}

fn add(case: &Case<'_>, actor: usize, target: &str, edge: &mut Edge) {
    let node = case.actors[actor].node;
    let Some((_, endpoint)) = case.nodes[node].endpoint(target) else {
        edge.outside = true;
        return;
    };
    let is_known = matches!(
        endpoint.kind,
        Some(EndpointKind::Pipe | EndpointKind::Fifo | EndpointKind::Tcp | EndpointKind::Unix)
    );
    let one = is_known
        .then(|| of_target(case, actor, target, false))
        .flatten();
    match one {
        Some(one) => {
            edge.outside |= one.outside || one.wakers.is_empty();
            edge.wakers.extend(one.wakers);
            edge.evidence.extend(one.evidence);
        }
        None => edge.outside = true,
    }
}
