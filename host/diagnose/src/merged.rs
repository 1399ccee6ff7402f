//! All Python stacks of all ranks as one tree: threads at the same place are one class, with the ranks that are there. Of one
//! instant or of many; two such trees are compared in `merged/compared.rs`, two instants thread by thread in `merged/moved.rs`.

mod compared;
mod labels;
mod merging;
mod moved;
mod tree;
mod two_sets;
mod who;

use model::{GapCode, Snapshot, Timestamp};
use serde::Serialize;

use crate::ranges::RankSet;

pub use compared::{Both, Comparison, Side};
pub use merging::Merging;
pub use moved::{Move, Moves};
pub use two_sets::TwoSets;
pub use who::{Others, Stay};

/// How closely places are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// By function.
    Function,
    /// By function; by line as well in focus files and for the innermost frame of the job's own code.
    #[default]
    Focus,
    /// By line everywhere.
    Line,
}

/// Which threads of a process count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Threads {
    /// All that have a Python stack.
    #[default]
    All,
    /// The main thread.
    Main,
}

/// What is merged.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// How closely places are told apart.
    pub level: Level,
    /// Only these ranks, with the processes that work for them; everybody where it is absent.
    pub ranks: Option<RankSet>,
    /// Which threads.
    pub threads: Threads,
}

/// The stacks of one or more snapshots, merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Merged {
    /// Threads that are at the same place, the largest class first.
    pub classes: Vec<Class>,
    /// The prefix tree of all classes, outermost frames first.
    pub tree: Vec<Node>,
    /// Those whose stacks were not read when they were last looked at, by the reason.
    pub unread: Vec<Unread>,
}

/// The threads that are at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Class {
    /// Outermost first.
    pub frames: Vec<String>,
    /// Those of them that have no rank.
    pub others: Vec<Others>,
    /// How many processes they belong to.
    pub processes: usize,
    /// How many ranks.
    pub rank_count: usize,
    /// The ranks, as `0-2,5`; empty where none has one.
    pub ranks: String,
    /// How much of the time, where they were looked at more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stay: Option<Stay>,
    /// How many threads; over time, of all that were ever there.
    pub threads: usize,
}

/// One frame of the tree with what is below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// What it calls, the largest first.
    pub children: Vec<Node>,
    /// The frame.
    pub frame: String,
    /// Whether its file is in focus.
    pub is_focus: bool,
    /// Whether it is of an installed package or of Python's own library.
    pub is_library: bool,
    /// Those that are here or below and have no rank.
    pub others: Vec<Others>,
    /// How many ranks are here or below.
    pub rank_count: usize,
    /// The ranks that are here or below.
    pub ranks: String,
    /// How much of the time, where they were looked at more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stay: Option<Stay>,
    /// How many threads are here or below; over time, of all that ever were.
    pub threads: usize,
}

/// Processes whose stacks were not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// Why.
    pub code: GapCode,
    /// Those of them that have no rank.
    pub others: Vec<Others>,
    /// How many.
    pub processes: usize,
    /// How many ranks they belong to.
    pub rank_count: usize,
    /// These ranks.
    pub ranks: String,
}

impl Merged {
    /// Merges the stacks of snapshots: of different nodes at one instant, or of several instants.
    pub fn of(snapshots: &[&Snapshot], selection: &Selection) -> Self {
        let mut merging = Merging::new(selection.clone());
        for snapshot in snapshots {
            merging.add(snapshot, snapshot.capture.started_at);
        }
        merging.finish()
    }
}

/// One look at a node: when, by a clock that all nodes share.
type Looked = (Timestamp, model::SnapshotId);
