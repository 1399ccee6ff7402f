//! Who waits for what, and for whom, at one instant: what the graph of waits shows to a person.

use model::ProcessId;
use serde::Serialize;

use crate::case::{Case, Fate, History, Terms};
use crate::graph::{EdgeKind, Graph};
use crate::verdict::Evidence;
use crate::wait::Wait;
use crate::words::safe;

/// What each living process waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Waits {
    /// By node, then by PID.
    pub waits: Vec<Waiting>,
}

/// One process, and what its main thread waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waiting {
    /// What shows for whom it waits.
    pub evidence: Vec<Evidence>,
    /// Whether it waits, by others or at once, for itself.
    pub is_in_circle: bool,
    /// Its node.
    pub node: String,
    /// The places in the list of those any of whom could end the wait.
    pub on: Vec<usize>,
    /// Whether somebody who is not watched could end it.
    pub outside: bool,
    /// `PID:START`.
    pub process: ProcessId,
    /// The rank that it belongs to.
    pub rank: Option<u64>,
    /// Whether it is that rank, and no helper of it.
    pub is_rank: bool,
    /// How it waits for them, such as `reads a pipe`; absent where nobody is known.
    pub way: Option<&'static str>,
    /// What it waits for, in words; empty where that is not known.
    pub words: String,
}

impl Waits {
    /// Returns the waits as of the newest snapshot of each node.
    pub fn of(histories: &[History<'_>]) -> Self {
        let Some(case) = Case::new(histories, &Terms::default()) else {
            return Self::default();
        };
        let graph = Graph::new(&case);
        let mut living: Vec<usize> = case
            .alive()
            .filter(|(_, actor)| actor.fate == Fate::Alive)
            .map(|(index, _)| index)
            .collect();
        living.sort_by_key(|index| {
            let actor = &case.actors[*index];
            (actor.node, actor.process.pid)
        });
        let place = |actor: &usize| living.iter().position(|other| other == actor);
        let waiting = |index: &usize| {
            let actor = &case.actors[*index];
            let edge = graph.edge(*index);
            let on = edge.iter().flat_map(|edge| &edge.wakers);
            Waiting {
                evidence: graph.evidence(*index),
                is_in_circle: graph.circle(*index).is_some(),
                node: case.node_of(*index).newest().task.node.clone(),
                on: on.filter_map(place).collect(),
                outside: edge.is_some_and(|edge| edge.outside),
                process: actor.process.identity,
                rank: actor.rank,
                is_rank: actor.is_rank,
                way: edge.map(|edge| way(edge.kind)),
                words: words(&actor.wait),
            }
        };
        Self {
            waits: living.iter().map(waiting).collect(),
        }
    }
}

fn way(kind: EdgeKind) -> &'static str {
    match kind {
        EdgeKind::PipeRead => "reads a pipe",
        EdgeKind::PipeWrite => "writes into a pipe that is full",
        EdgeKind::SocketRead => "reads a socket",
        EdgeKind::SocketWrite => "writes into a socket",
        EdgeKind::Connect => "waits to be connected",
        EdgeKind::FileLock => "waits for a file lock",
        EdgeKind::Child => "waits for a child",
        EdgeKind::Shared => "waits for a lock that processes share",
        EdgeKind::Events => "waits for any of several descriptors",
    }
}

/// What a wait is, in words; empty where that is not known.
pub(crate) fn words(wait: &Wait) -> String {
    match wait {
        Wait::Unknown => String::new(),
        Wait::Running => "runs, or could".to_owned(),
        Wait::Stopped => "is stopped".to_owned(),
        Wait::Frozen => "is frozen with its cgroup".to_owned(),
        Wait::Memory => "waits for memory at the limit of its cgroup".to_owned(),
        Wait::Storage => "waits for a file system".to_owned(),
        Wait::Sleep => "sleeps for a time".to_owned(),
        Wait::Futex {
            is_private: true, ..
        } => "waits for a lock or a notice within the process".to_owned(),
        Wait::Futex { .. } => "waits for a lock that processes share".to_owned(),
        Wait::Read { target, .. } => format!("reads {}", safe(target)),
        Wait::Write { target, .. } => format!("writes to {}", safe(target)),
        Wait::Poll { fds, .. } => format!("polls {} descriptors", fds.len()),
        Wait::Epoll { .. } => "waits for events of descriptors".to_owned(),
        Wait::Connect { target } => format!("connects {}", safe(target)),
        Wait::Accept { target } => format!("waits for who connects to {}", safe(target)),
        Wait::OpenFifo { path } => format!("waits for the other end of {}", safe(path)),
        Wait::FileLock => "waits for a file lock".to_owned(),
        Wait::Child { pid: -1 } => "waits for any child".to_owned(),
        Wait::Child { pid } => format!("waits for child {pid}"),
        Wait::Signal => "waits for a signal".to_owned(),
    }
}
