//! All Python stacks of all ranks as one tree: threads at the same place are one class, with the ranks that are there.

use std::collections::{BTreeMap, BTreeSet, HashMap, btree_map};

use model::{Frame, Process, ProcessId, SharedFrame, Snapshot, Target, Value};
use serde::Serialize;

use crate::ranges::ranges;

/// How closely places are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// By function; by line as well in focus files and for the innermost frame of the job's own code.
    #[default]
    Function,
    /// By line everywhere.
    Line,
}

/// The stacks of one or more snapshots, merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Merged {
    /// Threads that are at the same place, the largest class first.
    pub classes: Vec<Class>,
    /// The prefix tree of all classes, outermost frames first.
    pub tree: Vec<Node>,
}

/// The threads that are at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Class {
    /// Outermost first.
    pub frames: Vec<String>,
    /// How many processes they belong to.
    pub processes: usize,
    /// The PIDs of those that have no rank.
    pub pids: Vec<i32>,
    /// The ranks, as `0-2,5`; empty where none has one.
    pub ranks: String,
    /// How many threads.
    pub threads: usize,
}

/// One frame of the tree with what is below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// What it calls, the largest first.
    pub children: Vec<Node>,
    /// The frame.
    pub frame: String,
    /// The PIDs of those that have no rank.
    pub pids: Vec<i32>,
    /// The ranks that are here or below.
    pub ranks: String,
    /// How many threads are here or below.
    pub threads: usize,
}

/// A thread: the node's place in the list, its rank, its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    node: usize,
    process: ProcessId,
    rank: Option<u64>,
}

impl Merged {
    /// Merges the stacks of snapshots of different nodes.
    pub fn of(snapshots: &[&Snapshot], level: Level) -> Self {
        let mut labels = Labels::default();
        let mut classes: HashMap<Vec<u32>, Vec<Member>> = HashMap::new();
        for (node, snapshot) in snapshots.iter().enumerate() {
            let ranks = ranks(snapshot);
            for process in &snapshot.processes {
                let environment = process.distributed_environment.get("RANK");
                let told = environment.and_then(|rank| rank.parse().ok());
                let rank = ranks.get(&process.identity).copied().or(told);
                for trace in process.pyspy.iter().flat_map(|stacks| &stacks.traces) {
                    let place = labels.place(&trace.frames, level, &snapshot.focus_files);
                    let process = process.identity;
                    classes.entry(place).or_default().push(Member {
                        node,
                        process,
                        rank,
                    });
                }
            }
        }
        finish(&labels, &classes)
    }
}

/// Classes and tree of stacks whose places are known.
fn finish(labels: &Labels<'_>, classes: &HashMap<Vec<u32>, Vec<Member>>) -> Merged {
    let tree = tree(labels, classes);
    let mut list: Vec<Class> = classes
        .iter()
        .map(|(place, members)| class(labels, place, members))
        .collect();
    list.sort_by(|one, other| {
        (other.threads, &one.frames, &one.ranks).cmp(&(one.threads, &other.frames, &other.ranks))
    });
    Merged {
        classes: list,
        tree,
    }
}

/// Returns the ranks that a snapshot shows, as plugins or the environment say.
pub fn ranks_of(snapshot: &Snapshot) -> BTreeSet<u64> {
    let told = ranks(snapshot);
    let of = |process: &Process| {
        let environment = process.distributed_environment.get("RANK");
        let said = environment.and_then(|rank| rank.parse().ok());
        told.get(&process.identity).copied().or(said)
    };
    snapshot.processes.iter().filter_map(of).collect()
}

fn ranks(snapshot: &Snapshot) -> HashMap<ProcessId, u64> {
    let mut ranks = HashMap::new();
    for annotation in snapshot.annotations.iter().filter(|it| it.key == "rank") {
        if let (Target::Process(identity), Value::Number(number)) =
            (&annotation.target, &annotation.value)
            && *number >= 0.0
        {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "ranks are small whole numbers"
            )]
            ranks.insert(*identity, *number as u64);
        }
    }
    ranks
}

/// The texts of frames, each once.
#[derive(Default)]
struct Labels<'a> {
    texts: Vec<String>,
    by_text: HashMap<String, u32>,
    /// By function, file, and line where that counts: a text is formed once.
    by_frame: HashMap<(&'a str, &'a str, Option<i32>), u32>,
    /// Shared frames that were seen, by where they lie, and whether with their line.
    by_place: HashMap<(usize, bool), u32>,
}

impl<'a> Labels<'a> {
    /// The place of a stack, outermost frame first.
    fn place(&mut self, frames: &'a [SharedFrame], level: Level, focus: &[String]) -> Vec<u32> {
        let own = frames
            .iter()
            .position(|frame| !crate::python::is_standard_library(frame));
        let mut place = Vec::with_capacity(frames.len());
        for (index, frame) in frames.iter().enumerate().rev() {
            let with_line = level == Level::Line || own == Some(index) || is_focus(frame, focus);
            place.push(self.label(frame, with_line));
        }
        place
    }

    fn label(&mut self, frame: &'a SharedFrame, with_line: bool) -> u32 {
        // What a capture has read in many stacks is one frame; what was decoded is many.
        let place = frame.has_clones().then(|| (frame.place(), with_line));
        if let Some(&known) = place.and_then(|place| self.by_place.get(&place)) {
            return known;
        }
        let line = with_line.then_some(frame.line);
        let content = (frame.name.as_str(), frame.filename.as_str(), line);
        let label = match self.by_frame.get(&content) {
            Some(&known) => known,
            None => self.new_label(content),
        };
        if let Some(place) = place {
            self.by_place.insert(place, label);
        }
        label
    }

    fn new_label(&mut self, content: (&'a str, &'a str, Option<i32>)) -> u32 {
        let (name, path, line) = content;
        let file = path.rsplit('/').next().unwrap_or(path);
        let text = match line {
            Some(line) => format!("{name} ({file}:{line})"),
            None => format!("{name} ({file})"),
        };
        let next = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        // Files of one name in different folders are one.
        let label = *self.by_text.entry(text.clone()).or_insert(next);
        if label == next {
            self.texts.push(text);
        }
        self.by_frame.insert(content, label);
        label
    }

    fn text(&self, label: u32) -> String {
        self.texts.get(label as usize).cloned().unwrap_or_default()
    }
}

/// Whether a frame's file is named by the `focus-files` setting, by its end.
fn is_focus(frame: &Frame, focus: &[String]) -> bool {
    focus
        .iter()
        .any(|pattern| !pattern.contains('*') && frame.filename.ends_with(pattern.as_str()))
}

fn class(labels: &Labels<'_>, place: &[u32], members: &[Member]) -> Class {
    let (ranks, pids) = who(members);
    let mut processes: Vec<(usize, ProcessId)> =
        members.iter().map(|it| (it.node, it.process)).collect();
    processes.sort_unstable();
    processes.dedup();
    Class {
        frames: place.iter().map(|label| labels.text(*label)).collect(),
        processes: processes.len(),
        pids,
        ranks,
        threads: members.len(),
    }
}

fn who(members: &[Member]) -> (String, Vec<i32>) {
    let ranks = ranges(members.iter().filter_map(|member| member.rank));
    let mut pids: Vec<i32> = members
        .iter()
        .filter(|it| it.rank.is_none())
        .map(|it| it.process.pid)
        .collect();
    pids.sort_unstable();
    pids.dedup();
    (ranks, pids)
}

#[derive(Default)]
struct Branch {
    children: BTreeMap<u32, Branch>,
    members: Vec<Member>,
}

fn tree(labels: &Labels<'_>, classes: &HashMap<Vec<u32>, Vec<Member>>) -> Vec<Node> {
    let mut root = Branch::default();
    for (place, members) in classes {
        let mut branch = &mut root;
        for label in place {
            branch = branch.children.entry(*label).or_default();
            branch.members.extend_from_slice(members);
        }
    }
    // The depth of a stack is bounded by the capture; walked without recursion all the same.
    nodes(labels, root)
}

/// A branch that is being turned into a node.
struct Open {
    label: Option<u32>,
    members: Vec<Member>,
    /// Those below that are still to do.
    waiting: btree_map::IntoIter<u32, Branch>,
    /// Those below that are done.
    done: Vec<Node>,
}

impl Open {
    fn of(label: Option<u32>, branch: Branch) -> Self {
        Self {
            label,
            members: branch.members,
            waiting: branch.children.into_iter(),
            done: Vec::new(),
        }
    }
}

/// Turns branches into nodes, the deepest first, without a call for each level.
fn nodes(labels: &Labels<'_>, root: Branch) -> Vec<Node> {
    let mut path = vec![Open::of(None, root)];
    while let Some(open) = path.last_mut() {
        if let Some((label, branch)) = open.waiting.next() {
            path.push(Open::of(Some(label), branch));
            continue;
        }
        let Some(mut open) = path.pop() else {
            break;
        };
        open.done
            .sort_by(|one, other| (other.threads, &one.frame).cmp(&(one.threads, &other.frame)));
        let Some((label, above)) = open.label.zip(path.last_mut()) else {
            return open.done;
        };
        // Where all go on to the same frame, they are the same ones.
        let (ranks, pids) = match open.done.as_slice() {
            [only] if only.threads == open.members.len() => (only.ranks.clone(), only.pids.clone()),
            _ => who(&open.members),
        };
        above.done.push(Node {
            children: open.done,
            frame: labels.text(label),
            pids,
            ranks,
            threads: open.members.len(),
        });
    }
    Vec::new()
}

#[cfg(test)]
mod tests;
