//! Who waits for whom, and what shows it. No edge without evidence.

mod events;
mod shared;
mod sockets;

use model::{Endpoint, EndpointKind, PipeEnd};

use events::events;
pub(crate) use events::watched;
use shared::{Shared, shared_futex, shared_futexes};
use sockets::{connection, socket};

use crate::case::{Case, Fate, thread_index};
use crate::verdict::Evidence;
use crate::wait::Wait;

/// What the main thread of a process waits for, and who could end the wait.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) kind: EdgeKind,
    /// The processes of the task any of which could end the wait; it may be the waiting process itself.
    pub(crate) wakers: Vec<usize>,
    /// Whether somebody who is not watched could end it.
    pub(crate) outside: bool,
    pub(crate) evidence: Vec<Evidence>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EdgeKind {
    PipeRead,
    PipeWrite,
    SocketRead,
    SocketWrite,
    Connect,
    FileLock,
    Child,
    /// A futex that processes share: a semaphore, a lock, a barrier.
    Shared,
    /// Any of several descriptors.
    Events,
}

pub(crate) struct Graph {
    /// By actor.
    pub(crate) edges: Vec<Option<Edge>>,
}

impl Graph {
    pub(crate) fn new(case: &Case<'_>) -> Self {
        let shared = shared_futexes(case);
        let edges = (0..case.actors.len()).map(|actor| edge(case, &shared, actor));
        Self {
            edges: edges.collect(),
        }
    }

    pub(crate) fn edge(&self, actor: usize) -> Option<&Edge> {
        self.edges[actor].as_ref()
    }

    /// What shows what an actor waits for.
    pub(crate) fn evidence(&self, actor: usize) -> Vec<Evidence> {
        self.edge(actor)
            .map_or_else(Vec::new, |edge| edge.evidence.clone())
    }

    /// A circle of processes each of which waits for the next alone, from `start` on; nothing where there is none.
    pub(crate) fn circle(&self, start: usize) -> Option<Vec<usize>> {
        let mut path = vec![start];
        loop {
            let edge = self.edge(path[path.len() - 1])?;
            let (false, [next]) = (edge.outside, edge.wakers.as_slice()) else {
                return None;
            };
            if let Some(begin) = path.iter().position(|actor| actor == next) {
                return (begin == 0).then_some(path);
            }
            path.push(*next);
        }
    }

    /// All that wait, directly or through others, for one of `roots` alone.
    pub(crate) fn waiting_for(&self, case: &Case<'_>, roots: &[usize]) -> Vec<usize> {
        self.waiting(case, roots, |edge, found| {
            edge.wakers.iter().all(|waker| found.contains(waker))
        })
    }

    /// All whose wait one of `roots` could end, directly or through others.
    pub(crate) fn waiting_for_any(&self, case: &Case<'_>, roots: &[usize]) -> Vec<usize> {
        self.waiting(case, roots, |edge, found| {
            edge.wakers.iter().any(|waker| found.contains(waker))
        })
    }

    fn waiting(
        &self,
        case: &Case<'_>,
        roots: &[usize],
        fits: impl Fn(&Edge, &[usize]) -> bool,
    ) -> Vec<usize> {
        let mut found: Vec<usize> = roots.to_vec();
        let mut waiting = Vec::new();
        loop {
            let before = found.len();
            for (actor, _) in case.alive() {
                let waits = self.edge(actor).is_some_and(|edge| {
                    let for_others = edge.kind == EdgeKind::Events && edge.outside;
                    !for_others && !edge.wakers.is_empty() && fits(edge, &found)
                });
                if waits && !found.contains(&actor) {
                    found.push(actor);
                    waiting.push(actor);
                }
            }
            if found.len() == before {
                waiting.sort_unstable();
                return waiting;
            }
        }
    }
}

fn edge(case: &Case<'_>, shared: &Shared<'_>, actor: usize) -> Option<Edge> {
    let it = &case.actors[actor];
    if it.fate != Fate::Alive {
        return None;
    }
    let thread = thread_index(it.process, it.waiting_thread)?;
    let call = |key: &str| case.cite(actor, &format!("proc/threads/{thread}/call/{key}"));
    let mut edge = match &it.wait {
        Wait::Read { target, .. } => of_target(case, actor, target, false)?,
        Wait::Write { target, .. } => of_target(case, actor, target, true)?,
        // One descriptor among several may be enough; of one alone it is as a read.
        Wait::Poll { fds, is_timed } => match fds.as_slice() {
            [] => return None,
            [fd] => of_target(case, actor, &target_of(case, actor, *fd)?, false)?,
            fds => events(case, actor, fds, *is_timed),
        },
        Wait::Epoll { fd, is_timed } => {
            let (fds, shown) = watched(case, actor, *fd)?;
            let mut edge = events(case, actor, &fds, *is_timed);
            edge.evidence.insert(0, shown);
            edge
        }
        Wait::Connect { target } => connection(case, actor, target)?,
        Wait::FileLock => file_lock(case, actor)?,
        Wait::Child { pid } => child(case, actor, *pid)?,
        Wait::Futex {
            address,
            is_private: false,
            ..
        } => shared_futex(case, shared, actor, address)?,
        _ => return None,
    };
    let mut evidence: Vec<Evidence> = call("name").into_iter().collect();
    evidence.append(&mut edge.evidence);
    edge.evidence = evidence;
    Some(edge)
}

pub(crate) fn target_of(case: &Case<'_>, actor: usize, fd: i32) -> Option<String> {
    let fd = fd.to_string();
    let process = case.actors[actor].process;
    let mut descriptors = process.proc.file_descriptors.iter();
    descriptors
        .find(|it| it.fd == fd)
        .map(|it| it.target.clone())
}

/// Whether what a descriptor leads to is a terminal.
pub(crate) fn is_terminal(target: &str) -> bool {
    let mut beginnings = ["/dev/pts/", "/dev/tty", "/dev/console"].iter();
    beginnings.any(|begin| target.starts_with(begin))
}

fn of_target(case: &Case<'_>, actor: usize, target: &str, writes: bool) -> Option<Edge> {
    let node = case.actors[actor].node;
    let (index, endpoint) = case.nodes[node].endpoint(target)?;
    // Who listens waits for nobody in particular.
    if endpoint
        .tcp
        .as_ref()
        .is_some_and(|tcp| tcp.state == "listen")
        || endpoint
            .unix
            .as_ref()
            .is_some_and(|unix| unix.state == "listen")
    {
        return None;
    }
    match endpoint.kind? {
        EndpointKind::Pipe | EndpointKind::Fifo => Some(pipe(case, node, index, endpoint, writes)),
        EndpointKind::Tcp | EndpointKind::Unix => socket(case, actor, index, endpoint, writes),
        _ => None,
    }
}

fn owners(case: &Case<'_>, node: usize, endpoint: &Endpoint, end: Option<PipeEnd>) -> Vec<usize> {
    let fits = |owner: Option<PipeEnd>| match (end, owner) {
        (None, _) | (Some(_), Some(PipeEnd::Both)) => true,
        (Some(end), owner) => owner == Some(end),
    };
    let owners = endpoint.owners.iter().filter(|owner| fits(owner.end));
    let mut found: Vec<usize> = owners
        .filter_map(|owner| case.find(node, owner.identity))
        .collect();
    found.dedup();
    found
}

fn pipe(case: &Case<'_>, node: usize, index: usize, endpoint: &Endpoint, writes: bool) -> Edge {
    let end = if writes {
        PipeEnd::Read
    } else {
        PipeEnd::Write
    };
    let wakers = owners(case, node, endpoint, Some(end));
    // Ends that are not known may be the other end.
    let is_known = endpoint.owners.iter().all(|owner| owner.end.is_some())
        && !case.nodes[node].has_unread("fd");
    let others = endpoint.pipe.as_ref().and_then(|pipe| {
        if writes {
            pipe.has_readers
        } else {
            pipe.has_writers
        }
    });
    let outside = !is_known || (wakers.is_empty() && others != Some(false));
    let path = format!("/ipc/endpoints/{index}");
    let evidence = ["pipe/bytes_waiting", "owners"].iter();
    let evidence = evidence.filter_map(|key| case.cite_newest(node, &format!("{path}/{key}")));
    Edge {
        kind: if writes {
            EdgeKind::PipeWrite
        } else {
            EdgeKind::PipeRead
        },
        wakers,
        outside,
        evidence: evidence.collect(),
    }
}

fn file_lock(case: &Case<'_>, actor: usize) -> Option<Edge> {
    let it = &case.actors[actor];
    let locks = &case.nodes[it.node].newest().ipc.locks;
    let waits = |lock: &&model::FileLock| {
        let mut waiters = lock.waiters.iter();
        waiters.any(|waiter| waiter.identity == Some(it.process.identity))
    };
    let index = locks.iter().position(|lock| waits(&lock))?;
    let lock = &locks[index];
    let mut wakers: Vec<usize> = lock
        .owners
        .iter()
        .filter_map(|owner| case.find(it.node, owner.identity))
        .collect();
    let holder = match lock.holder {
        Some(holder) => case.find(it.node, holder),
        None => lock.holder_pid.and_then(|pid| {
            let mut alive = case.alive();
            alive
                .find(|(_, other)| other.node == it.node && other.process.pid == pid)
                .map(|(index, _)| index)
        }),
    };
    wakers.extend(holder);
    wakers.sort_unstable();
    wakers.dedup();
    let keys = ["holder", "path", "waiters"].iter();
    let evidence =
        keys.filter_map(|key| case.cite_newest(it.node, &format!("/ipc/locks/{index}/{key}")));
    Some(Edge {
        kind: EdgeKind::FileLock,
        outside: wakers.is_empty(),
        wakers,
        evidence: evidence.collect(),
    })
}

fn child(case: &Case<'_>, actor: usize, pid: i32) -> Option<Edge> {
    let children = case.actors[actor].children.iter().copied();
    let group = |child: usize| case.actors[child].process.proc.process_group;
    let own_group = group(actor);
    let wakers: Vec<usize> = children
        .filter(|child| case.actors[*child].fate != Fate::Gone)
        .filter(|child| match pid {
            -1 => true,
            0 => group(*child) == own_group,
            1.. => case.actors[*child].process.pid == pid,
            _ => pid
                .checked_neg()
                .is_some_and(|pid| group(*child) == Some(pid)),
        })
        .collect();
    let thread = thread_index(case.actors[actor].process, case.actors[actor].process.pid)?;
    let evidence = case.cite(actor, &format!("proc/threads/{thread}/call/waits_for"));
    Some(Edge {
        kind: EdgeKind::Child,
        outside: wakers.is_empty(),
        wakers,
        evidence: evidence.into_iter().collect(),
    })
}
