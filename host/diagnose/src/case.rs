//! What there is to judge: the snapshots of all nodes, laid out so that a rule can ask for a process, its parent, its
//! rank and what became of it.

mod cite;
mod ears;
mod ends;
mod pauses;
pub(crate) mod said;
mod unread;
pub(crate) mod window;

use std::collections::HashMap;
use std::time::Duration;

use model::{Ending, Endpoint, Process, ProcessId, Snapshot, Thread, Trace};

use ends::{Over, over};
pub use ends::{is_over, stand};
use said::{notes, rank};
use window::{unit, window};

use crate::ending::End;
use crate::motion::{self, Motion, Seen, Tracks};
use crate::python;
use crate::wait::{self, Wait};

/// Intervals without progress that make a hang.
pub(crate) const PATIENCE: usize = 3;

/// So long without progress makes a hang too, where intervals are long and snapshots closer.
pub(crate) const LONGEST_PATIENCE: Duration = Duration::from_mins(1);

/// What is known beside the snapshots, and how long to wait.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// So long without progress makes a hang, where three intervals are longer.
    pub(crate) patience: Duration,
    /// What was learned from earlier snapshots of the only node.
    pub(crate) tracks: Tracks,
    /// The snapshots of the only node before this one show no more than who was seen in them for the last time.
    pub(crate) whole_from: usize,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            patience: LONGEST_PATIENCE,
            tracks: Tracks::default(),
            whole_from: 0,
        }
    }
}

/// The snapshots of one node, the oldest first. There may be holes: long runs are not read in full.
#[derive(Clone, Debug, Default)]
pub struct History<'a> {
    /// The snapshots.
    pub snapshots: Vec<&'a Snapshot>,
    /// How processes of the node ended, in the order of the ends.
    pub ends: Vec<End<'a>>,
}

/// One process of the task, on whichever node.
#[derive(Debug)]
pub(crate) struct Actor<'a> {
    pub(crate) node: usize,
    /// The snapshot that it was last seen in, and its index there.
    pub(crate) snapshot: usize,
    pub(crate) index: usize,
    pub(crate) process: &'a Process,
    pub(crate) fate: Fate,
    /// How it ended, where that was told.
    pub(crate) end: Option<End<'a>>,
    pub(crate) rank: Option<u64>,
    /// Whether it is the process of a rank itself, not one of its workers.
    pub(crate) is_rank: bool,
    /// The group that its rank belongs to.
    pub(crate) group: Option<String>,
    pub(crate) parent: Option<usize>,
    pub(crate) children: Vec<usize>,
    /// What it did; nothing where it is not there any more.
    pub(crate) seen: Option<Seen>,
    /// What its main thread waits for.
    pub(crate) wait: Wait,
    /// The thread whose wait that is.
    pub(crate) waiting_thread: i32,
}

/// Whether a process is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Alive,
    /// It has ended and its parent has not asked for its status.
    Zombie,
    /// It was seen earlier and is not there any more.
    Gone,
}

pub(crate) struct Node<'a> {
    pub(crate) snapshots: Vec<&'a Snapshot>,
    /// How processes ended, in the order of the ends, as far as it counts.
    pub(crate) ends: Vec<End<'a>>,
    /// How its main process ended, where it did by itself.
    pub(crate) over: Option<Ending>,
    /// How its main process ended, where somebody told it to: what it did before is the point.
    pub(crate) told_to_end: Option<End<'a>>,
    /// Those that show whether something moves: the newest, [`PATIENCE`] intervals of them.
    pub(crate) window: Vec<usize>,
    /// By identity, the actors of this node.
    pub(crate) by_identity: HashMap<ProcessId, usize>,
    /// Pipes and sockets of the newest snapshot by target.
    pub(crate) endpoints: HashMap<&'a str, usize>,
}

pub(crate) struct Case<'a> {
    pub(crate) nodes: Vec<Node<'a>>,
    pub(crate) actors: Vec<Actor<'a>>,
}

impl Actor<'_> {
    /// How it ended, as its obituary says, else as the kernel keeps it until the parent asks.
    pub(crate) fn ending(&self) -> Ending {
        let proc = &self.process.proc;
        let ending = self.end.map_or(Ending::Unknown, |end| end.obituary.ending);
        match (ending, proc.exit_signal, proc.exit_code) {
            (Ending::Unknown, Some(signal), _) => Ending::Killed {
                core_dumped: false,
                signal: signal.into(),
            },
            (Ending::Unknown, None, Some(code)) => Ending::Exited(code.into()),
            _ => ending,
        }
    }

    /// Whether a signal ended it.
    pub(crate) fn was_killed(&self) -> bool {
        self.fate != Fate::Alive && self.ending().signal().is_some()
    }

    pub(crate) fn motion(&self) -> Motion {
        self.seen.map_or(Motion::Unknown, |seen| seen.motion)
    }

    /// Whether its main thread was given a processor during the window; yes where that is not known.
    pub(crate) fn main_ran(&self) -> bool {
        self.seen.is_none_or(|seen| seen.main_ran)
    }

    /// Whether its main thread is where it was throughout the window.
    pub(crate) fn stands(&self) -> bool {
        self.seen.is_some_and(|seen| seen.stands)
    }

    /// Whether its main thread has not run for at least so many intervals.
    pub(crate) fn main_is_still_for(&self, intervals: usize) -> bool {
        self.seen
            .is_some_and(|seen| seen.main_still_for >= intervals)
    }

    /// Whether no thread of it ran for at least so many intervals.
    pub(crate) fn is_still_for(&self, intervals: usize) -> bool {
        self.seen.is_some_and(|seen| seen.still_for >= intervals)
    }
}

impl<'a> Node<'a> {
    pub(crate) fn newest(&self) -> &'a Snapshot {
        self.snapshots[self.snapshots.len() - 1]
    }

    pub(crate) fn newest_index(&self) -> usize {
        self.snapshots.len() - 1
    }

    /// Whether enough was seen to say that nothing moves.
    pub(crate) fn is_patient(&self) -> bool {
        self.window.len() > PATIENCE
    }

    pub(crate) fn endpoint(&self, target: &str) -> Option<(usize, &'a Endpoint)> {
        let index = *self.endpoints.get(target)?;
        Some((index, &self.newest().ipc.endpoints[index]))
    }
}

impl<'a> Case<'a> {
    /// Lays out the snapshots; nothing where there is none.
    pub(crate) fn new(histories: &[History<'a>], terms: &Terms) -> Option<Self> {
        let mut case = Self {
            nodes: Vec::new(),
            actors: Vec::new(),
        };
        let there = histories.iter().filter(|it| !it.snapshots.is_empty());
        let mut there: Vec<&History<'a>> = there.collect();
        // In which order nodes are listed does not matter.
        there.sort_by_key(|history| history.snapshots[0].task.node.as_str());
        for history in there {
            case.add(over(history), terms);
        }
        if case.nodes.is_empty() {
            return None;
        }
        case.relate();
        Some(case)
    }

    fn add(&mut self, told: Over<'a>, terms: &Terms) {
        let node = self.nodes.len();
        let Over {
            snapshots,
            ends,
            main,
            told_to_end,
        } = told;
        let newest = snapshots.len() - 1;
        let window = window(&snapshots, terms);
        let notes = notes(snapshots.iter().copied());
        let unit = unit(&snapshots, &window, terms);
        let motions = motion::of_all(&snapshots, &window, &terms.tracks, unit);
        let by_identity = self.enter(&snapshots, &ends, main.is_some(), &motions);
        let mut endpoints = HashMap::new();
        for (index, endpoint) in snapshots[newest].ipc.endpoints.iter().enumerate() {
            endpoints.insert(endpoint.target.as_str(), index);
        }
        for actor in self.actors.iter_mut().filter(|actor| actor.node == node) {
            let said = notes.get(&actor.process.identity);
            actor.rank = rank(said, actor.process, actor.end);
            actor.group = said.and_then(|said| said.group.clone());
        }
        self.nodes.push(Node {
            snapshots,
            ends,
            over: main,
            told_to_end,
            window,
            by_identity,
            endpoints,
        });
    }

    /// Makes an actor of each process of a node, from the newest snapshot that shows it.
    fn enter(
        &mut self,
        snapshots: &[&'a Snapshot],
        ends: &[End<'a>],
        is_over: bool,
        motions: &HashMap<ProcessId, Seen>,
    ) -> HashMap<ProcessId, usize> {
        let node = self.nodes.len();
        let newest = snapshots.len() - 1;
        let ends: HashMap<ProcessId, End<'a>> = ends
            .iter()
            .map(|end| (end.obituary.process, *end))
            .collect();
        let mut by_identity = HashMap::new();
        for (position, snapshot) in snapshots.iter().enumerate().rev() {
            // What rules find first is then what began first, whatever PIDs the kernel gave.
            for index in snapshot.by_age() {
                let process = &snapshot.processes[index];
                if by_identity.contains_key(&process.identity) {
                    continue;
                }
                by_identity.insert(process.identity, self.actors.len());
                let fate = match process.state {
                    _ if position != newest => Fate::Gone,
                    'Z' | 'X' => Fate::Zombie,
                    _ if is_over => Fate::Gone,
                    _ => Fate::Alive,
                };
                let is_alive = fate == Fate::Alive;
                let (wait, waiting_thread) = wait::of_main(process);
                self.actors.push(Actor {
                    node,
                    snapshot: position,
                    index,
                    process,
                    fate,
                    end: ends.get(&process.identity).copied().filter(|_| !is_alive),
                    rank: None,
                    is_rank: false,
                    group: None,
                    parent: None,
                    children: Vec::new(),
                    seen: motions.get(&process.identity).copied().filter(|_| is_alive),
                    wait,
                    waiting_thread,
                });
            }
        }
        by_identity
    }

    /// Parents and children; which process of a rank is the rank.
    fn relate(&mut self) {
        let mut by_pid: HashMap<(usize, i32), usize> = HashMap::new();
        for (index, actor) in self.actors.iter().enumerate() {
            // Those in the newest snapshot came first.
            by_pid
                .entry((actor.node, actor.process.pid))
                .or_insert(index);
        }
        for index in 0..self.actors.len() {
            let actor = &self.actors[index];
            let parent = by_pid.get(&(actor.node, actor.process.ppid)).copied();
            let parent = parent.filter(|parent| {
                let parent = self.actors[*parent].process;
                parent.start_time_ticks <= actor.process.start_time_ticks
            });
            self.actors[index].parent = parent;
            if let Some(parent) = parent {
                self.actors[parent].children.push(index);
            }
        }
        for index in 0..self.actors.len() {
            let actor = &self.actors[index];
            let parent = actor.parent.map(|parent| &self.actors[parent]);
            let inherits = parent.is_some_and(|parent| parent.rank == actor.rank);
            // A worker of a rank that has ended is no rank.
            let is_worker = self.is_orphan_worker(index);
            self.actors[index].is_rank = actor.rank.is_some() && !inherits && !is_worker;
        }
    }

    /// Whether an older process of the same node has the same rank and program: then this is its worker.
    fn is_orphan_worker(&self, index: usize) -> bool {
        let actor = &self.actors[index];
        actor.parent.is_none()
            && self.actors.iter().any(|other| {
                other.node == actor.node
                    && other.rank == actor.rank
                    && other.process.start_time_ticks < actor.process.start_time_ticks
                    && other.fate != Fate::Gone
            })
    }

    pub(crate) fn alive(&self) -> impl Iterator<Item = (usize, &Actor<'a>)> {
        let all = self.actors.iter().enumerate();
        all.filter(|(_, actor)| actor.fate == Fate::Alive)
    }

    /// Those of the living for which something holds.
    pub(crate) fn those(&self, holds: impl Fn(usize) -> bool) -> Vec<usize> {
        let alive = self.alive().map(|(index, _)| index);
        alive.filter(|index| holds(*index)).collect()
    }

    /// The actor that is there with this identity.
    pub(crate) fn find(&self, node: usize, identity: ProcessId) -> Option<usize> {
        self.nodes[node].by_identity.get(&identity).copied()
    }

    pub(crate) fn node_of(&self, actor: usize) -> &Node<'a> {
        &self.nodes[self.actors[actor].node]
    }

    /// All that descend from an actor.
    pub(crate) fn descendants(&self, actor: usize) -> Vec<usize> {
        let mut found = self.actors[actor].children.clone();
        let mut next = 0;
        while next < found.len() {
            for &child in &self.actors[found[next]].children {
                // Damaged snapshots may have circles.
                if child != actor && !found.contains(&child) {
                    found.push(child);
                }
            }
            next += 1;
        }
        found
    }
}

/// The trace of a thread; of the main thread also where the kernel's id is not known.
pub(crate) fn trace_of(process: &Process, tid: i32) -> Option<&Trace> {
    if tid == process.pid {
        return python::main_trace(process);
    }
    let traces = &process.pyspy.as_ref()?.traces;
    let tid = u64::try_from(tid).ok();
    traces
        .iter()
        .find(|trace| trace.os_thread_id.is_some() && trace.os_thread_id == tid)
}

/// The index of a thread in `proc.threads`.
pub(crate) fn thread_index(process: &Process, tid: i32) -> Option<usize> {
    let mut threads = process.proc.threads.iter();
    threads.position(|thread| thread.tid == tid)
}

pub(crate) fn main_thread(process: &Process) -> Option<&Thread> {
    let mut threads = process.proc.threads.iter();
    threads.find(|thread| thread.tid == process.pid)
}
