//! Merging snapshot after snapshot: none has to be kept.

use std::collections::{BTreeMap, HashMap};

use model::{GapCode, Process, ProcessId, Snapshot, Timestamp, Trace};

use super::labels::{Known, Labels};
use super::who::{self, People, Spot};
use super::{Class, Merged, Selection, Threads, Unread, tree};
use crate::focus::Focus;
use crate::python::main_trace;
use crate::words::program;

/// Merges snapshots one by one, in any order; several of one node are looks at it over time.
#[derive(Debug)]
pub struct Merging {
    nodes: Vec<Node>,
    pub(super) labels: Labels,
    pub(super) people: People,
    pub(super) places: HashMap<Vec<u32>, u32>,
    selection: Selection,
    pub(super) visits: Vec<Visit>,
}

/// One node, and who was seen there.
#[derive(Debug)]
struct Node {
    name: String,
    processes: HashMap<ProcessId, u32>,
    threads: HashMap<ThreadId, u32>,
}

/// A process, the kernel's or the library's id of a thread of it, and which one of several interpreters of that thread.
type ThreadId = (ProcessId, u64, usize);

/// A thread that one look found at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Visit {
    pub(super) place: u32,
    pub(super) thread: u32,
    pub(super) look: u32,
}

impl Merging {
    /// Returns one that has merged nothing yet.
    pub fn new(selection: Selection) -> Self {
        Self {
            nodes: Vec::new(),
            labels: Labels::default(),
            people: People::default(),
            places: HashMap::new(),
            selection,
            visits: Vec::new(),
        }
    }

    /// Merges one more snapshot, which was taken at `at` by a clock that all nodes share.
    pub fn add(&mut self, snapshot: &Snapshot, at: Timestamp) {
        let node = self.node(&snapshot.task.node);
        let looks = &mut self.people.looks[node];
        let look = u32::try_from(looks.len()).unwrap_or(u32::MAX);
        looks.push((at, snapshot.capture.id));
        let ranks = crate::ranks::of_processes(snapshot);
        let unread: HashMap<ProcessId, GapCode> = snapshot
            .gaps
            .iter()
            .filter(|gap| gap.what == "python_stack")
            .filter_map(|gap| Some((gap.process?, gap.code)))
            .collect();
        let mut known = Known::new(Focus::new(&snapshot.focus_files));
        for process in &snapshot.processes {
            let rank = ranks.get(&process.identity).copied();
            let wanted = self.selection.ranks.as_ref();
            if wanted.is_some_and(|wanted| rank.is_none_or(|rank| !wanted.has(rank))) {
                continue;
            }
            let traces = traces(process, self.selection.threads);
            let why = unread.get(&process.identity).copied();
            if traces.is_empty() && why.is_none() {
                continue;
            }
            let number = self.process(node, process);
            let facts = &mut self.people.processes[number as usize];
            facts.rank = rank.or(facts.rank);
            facts.unread = why.filter(|_| traces.is_empty());
            for trace in traces {
                let level = self.selection.level;
                let place = self.labels.place(&trace.frames, level, &mut known);
                let next = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
                let place = *self.places.entry(place).or_insert(next);
                let thread = self.thread(node, look, (process.identity, number), trace);
                self.visits.push(Visit {
                    place,
                    thread,
                    look,
                });
            }
        }
    }

    fn node(&mut self, name: &str) -> usize {
        if let Some(known) = self.nodes.iter().position(|node| node.name == name) {
            return known;
        }
        self.people.looks.push(Vec::new());
        self.nodes.push(Node {
            name: name.to_owned(),
            processes: HashMap::new(),
            threads: HashMap::new(),
        });
        self.nodes.len() - 1
    }

    fn process(&mut self, node: usize, process: &Process) -> u32 {
        let all = &mut self.people.processes;
        let of_node = &mut self.nodes[node].processes;
        *of_node.entry(process.identity).or_insert_with(|| {
            all.push(who::Process {
                node,
                pid: process.pid,
                program: program(process),
                rank: None,
                unread: None,
            });
            u32::try_from(all.len() - 1).unwrap_or(u32::MAX)
        })
    }

    fn thread(
        &mut self,
        node: usize,
        look: u32,
        (identity, process): (ProcessId, u32),
        trace: &Trace,
    ) -> u32 {
        let all = &mut self.people.threads;
        let id = trace.os_thread_id.unwrap_or(trace.thread_id);
        let of_node = &mut self.nodes[node].threads;
        for interpreter in 0.. {
            let thread = *of_node
                .entry((identity, id, interpreter))
                .or_insert_with(|| {
                    all.push(who::Thread {
                        looks: Vec::new(),
                        process,
                    });
                    u32::try_from(all.len() - 1).unwrap_or(u32::MAX)
                });
            let looks = &mut all[thread as usize].looks;
            if looks.last() != Some(&look) {
                looks.push(look);
                return thread;
            }
        }
        unreachable!("a snapshot has no endless list of threads")
    }

    /// Takes note that every stack was read; returns of which processes they were not.
    pub(super) fn forget_unread(&mut self) -> Vec<Option<GapCode>> {
        let processes = self.people.processes.iter_mut();
        processes.map(|process| process.unread.take()).collect()
    }

    /// Returns what was merged.
    pub fn finish(mut self) -> Merged {
        self.put_looks_in_order();
        let mut places: Vec<(Vec<u32>, u32)> = self.places.into_iter().collect();
        places.sort_unstable_by_key(|(_, number)| *number);
        self.visits.sort_unstable();
        let mut visits = self.visits.into_iter().peekable();
        let mut classes: Vec<(Vec<u32>, Vec<Spot>)> = Vec::new();
        for (place, number) in places {
            let mut spots = Vec::new();
            while let Some(visit) = visits.next_if(|visit| visit.place == number) {
                let Visit { thread, look, .. } = visit;
                spots.push(Spot { thread, look });
            }
            classes.push((place, spots));
        }
        let mut list: Vec<Class> = classes
            .iter()
            .map(|(place, spots)| class(&self.labels, &self.people, place, spots))
            .collect();
        let size = |class: &Class| class.stay.map_or(class.threads, |stay| stay.looks);
        list.sort_by(|one, other| (size(other), &one.frames).cmp(&(size(one), &other.frames)));
        Merged {
            unread: unread(&self.people),
            classes: list,
            tree: tree::tree(&self.labels, &self.people, classes),
        }
    }

    /// Numbers the looks at each node by time, whatever the order in which they came.
    fn put_looks_in_order(&mut self) {
        let mut numbers: Vec<Vec<u32>> = Vec::new();
        for looks in &mut self.people.looks {
            let mut order: Vec<usize> = (0..looks.len()).collect();
            order.sort_by_key(|look| looks[*look]);
            let mut numbers_of_node = vec![0; looks.len()];
            for (number, look) in (0..).zip(&order) {
                numbers_of_node[*look] = number;
            }
            looks.sort_unstable();
            numbers.push(numbers_of_node);
        }
        let node_of = |processes: &[who::Process], thread: &who::Thread| {
            processes[thread.process as usize].node
        };
        let People {
            processes, threads, ..
        } = &mut self.people;
        for visit in &mut self.visits {
            let node = node_of(processes, &threads[visit.thread as usize]);
            visit.look = numbers[node][visit.look as usize];
        }
        for thread in threads {
            let node = node_of(processes, thread);
            for look in &mut thread.looks {
                *look = numbers[node][*look as usize];
            }
            thread.looks.sort_unstable();
        }
    }
}

/// The stacks of a process that count.
fn traces(process: &Process, threads: Threads) -> Vec<&Trace> {
    match threads {
        Threads::All => {
            let stacks = process.pyspy.iter();
            stacks.flat_map(|stacks| &stacks.traces).collect()
        }
        Threads::Main => main_trace(process).into_iter().collect(),
    }
}

fn class(labels: &Labels, people: &People, place: &[u32], spots: &[Spot]) -> Class {
    let who = people.who(spots);
    Class {
        frames: labels.texts(place),
        others: who.others,
        processes: who.processes,
        rank_count: who.rank_count,
        ranks: who.ranks,
        stay: who.stay,
        threads: who.threads,
    }
}

/// Those whose stacks were not read when they were last looked at.
pub(super) fn unread(people: &People) -> Vec<Unread> {
    let mut codes: BTreeMap<GapCode, Vec<u32>> = BTreeMap::new();
    for (number, process) in (0..).zip(&people.processes) {
        if let Some(code) = process.unread {
            codes.entry(code).or_default().push(number);
        }
    }
    let codes = codes.into_iter();
    let unread = codes.map(|(code, processes)| {
        let who = people.name(processes);
        Unread {
            code,
            others: who.others,
            processes: who.processes,
            rank_count: who.rank_count,
            ranks: who.ranks,
        }
    });
    unread.collect()
}
