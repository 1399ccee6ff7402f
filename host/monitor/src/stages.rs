//! The stages of a task: which are open, and what each came to.
//!
//! Stages come from strangers, by the million, and overlap: everything is found by the identity that its owner gave it, never
//! by its position, and all that is kept is bounded. The newest that have ended are kept whole; all that have ended are
//! counted in the [`StageTotal`] of their path.

mod line;
mod name;
mod total;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};

use model::{ProcessId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Reading, Statistics};

pub use line::{Begin, End, ParentId, ParseStageError, StageLine};
pub use name::{check as check_stage_name, path_text};
pub use total::StageTotal;
use total::Totals;

/// What a reading names as its stage while none is open.
pub const NO_STAGE: &str = "workflow";

/// So many stages may be open at once; those that begin beyond are counted and not kept.
pub const MOST_OPEN: usize = 4096;
/// So many of the newest stages that have ended are kept whole.
pub const MOST_ENDED: usize = 512;
/// A path names so many stages at most: the innermost.
const DEEPEST: usize = 32;
/// A label names so many stages at most.
const MOST_NAMED: usize = 4;
/// And it has so many characters at most, because each sample has one.
const LABEL_LIMIT: usize = 300;

/// One stage, as the report has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// When it ended, by the clock of the node; null while it is open.
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
    /// What ended it; null while it is open.
    #[serde(default)]
    pub ended_by: Option<EndedBy>,
    /// The name of the error that it ended with; of a stage that ended with its process, how that ended.
    #[serde(default)]
    pub error: Option<String>,
    /// Its number, from 0, in the order in which stages began.
    pub id: u64,
    /// Its name, which may hold any character but control characters.
    pub name: String,
    /// The stage that it lies in; null at the top.
    #[serde(default)]
    pub parent_id: Option<u64>,
    /// The names of the stages that it lies in, the outermost first, and its own; of deep ones the innermost 32.
    #[serde(default)]
    pub path: Vec<String>,
    /// The PID that it belongs to, in the PID namespace of the collector.
    #[serde(default)]
    pub pid: i32,
    /// The process that it belongs to; null where that had ended before anybody could look.
    #[serde(default)]
    pub process: Option<ProcessId>,
    /// From the start of the collector to its beginning, seconds by the monotonic clock.
    pub start_seconds: f64,
    /// When it began, by the clock of the node.
    #[serde(default)]
    pub started_at: Option<Timestamp>,
    /// What the samples within it come to.
    #[serde(default)]
    pub statistics: Statistics,
    /// The thread that it belongs to, as its owner says.
    #[serde(default)]
    pub thread: Option<i32>,
    /// How long it took, or has taken so far, seconds by the monotonic clock: as its owner measured it, else as we did.
    pub wall_seconds: f64,
}

/// What ended a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// The collector's own end.
    Collector,
    /// Its owner said so.
    Owner,
    /// The end of the process that it belonged to.
    Process,
}

/// Whose a stage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// Its PID.
    pub pid: i32,
    /// Its identity; none where it had ended before anybody could look.
    pub process: Option<ProcessId>,
}

/// An instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// By the clock of the node.
    pub at: Timestamp,
    /// From the start of the collector, seconds by the monotonic clock.
    pub elapsed_seconds: f64,
}

/// What could not be done with a stage. All of them are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageTrouble {
    /// Stages that began while one with the same id was open in the same process.
    pub begun_twice: u64,
    /// Stages that were not told, because there was no room in their owner's socket: as it says.
    pub skipped: u64,
    /// Stages that began while as many were open as are kept.
    pub too_many: u64,
    /// Ends of stages that are not open: their beginning was never heard, or they had ended.
    pub unmatched_ends: u64,
}

/// All stages of a task.
#[derive(Clone, Debug, Default)]
pub struct Stages {
    /// What could not be done.
    pub trouble: StageTrouble,
    by_id: HashMap<(Owner, String), u64>,
    by_thread: HashMap<(Owner, Option<i32>), Vec<u64>>,
    ended: VecDeque<Stage>,
    ended_count: u64,
    next: u64,
    open: BTreeMap<u64, Open>,
    totals: Totals,
}

#[derive(Clone, Debug)]
struct Open {
    /// How its owner names it; none where thread and name do.
    given: Option<String>,
    owner: Owner,
    stage: Stage,
    until_exit: bool,
}

impl Stages {
    /// A stage begins; returns its number, or nothing where it is not kept, which is counted.
    pub fn begin(&mut self, owner: Owner, begin: Begin, now: Moment) -> Option<u64> {
        self.trouble.skipped += u64::from(begin.skipped);
        if self.open.len() >= MOST_OPEN {
            self.trouble.too_many += 1;
            return None;
        }
        let id = self.next;
        if let Some(given) = &begin.id {
            match self.by_id.entry((owner, given.clone())) {
                Entry::Occupied(_) => {
                    self.trouble.begun_twice += 1;
                    return None;
                }
                Entry::Vacant(vacant) => _ = vacant.insert(id),
            }
        }
        let parent_id = self.parent(owner, &begin);
        if begin.id.is_none() {
            let stack = self.by_thread.entry((owner, begin.thread)).or_default();
            stack.push(id);
        }
        self.next += 1;
        let stage = Stage {
            ended_at: None,
            ended_by: None,
            error: None,
            id,
            path: self.path(parent_id, &begin.name),
            name: begin.name,
            parent_id,
            pid: owner.pid,
            process: owner.process,
            start_seconds: now.elapsed_seconds,
            started_at: Some(now.at),
            statistics: Statistics::default(),
            thread: begin.thread,
            wall_seconds: 0.0,
        };
        let open = Open {
            given: begin.id,
            owner,
            stage,
            until_exit: begin.until_exit,
        };
        self.open.insert(id, open);
        Some(id)
    }

    /// A stage ends; returns it, or nothing where none like it is open, which is counted.
    pub fn end(&mut self, owner: Owner, end: &End, now: Moment) -> Option<&Stage> {
        let Some(id) = self.find(owner, end) else {
            self.trouble.unmatched_ends += 1;
            return None;
        };
        let error = end.error.clone();
        self.close(id, EndedBy::Owner, error, end.seconds, now)
    }

    /// A process has ended, and with it its stages; `outcome` is how, nothing where it ended well. Returns how many ended.
    pub fn process_ended(&mut self, owner: Owner, outcome: Option<&str>, now: Moment) -> usize {
        let ids: Vec<u64> = self.open_of(owner).collect();
        // The inner ones end first.
        for id in ids.iter().rev() {
            let is_meant = self.open.get(id).is_some_and(|open| open.until_exit);
            let error = outcome.map(str::to_owned);
            let error = error.or_else(|| (!is_meant).then(|| "left open".to_owned()));
            self.close(*id, EndedBy::Process, error, None, now);
        }
        ids.len()
    }

    /// The watching ends: what is open ends with it.
    pub fn watching_ended(&mut self, now: Moment) {
        let ids: Vec<u64> = self.open.keys().copied().collect();
        for id in ids.into_iter().rev() {
            self.close(id, EndedBy::Collector, None, None, now);
        }
    }

    /// Returns the stages that have ended, those that are kept, the newest first.
    pub fn newest_ended(&self) -> impl Iterator<Item = &Stage> {
        self.ended.iter().rev()
    }

    /// Returns whether a stage of `owner` is open.
    pub fn has_open(&self, owner: Owner) -> bool {
        self.open_of(owner).next().is_some()
    }

    /// Returns how many are open, and how many have ended.
    pub fn counts(&self) -> (usize, u64) {
        (self.open.len(), self.ended_count)
    }

    /// Returns the names of the open stages as a reading names them: the paths of the innermost, the newest first.
    pub fn label(&self) -> String {
        let is_parent = |id: &u64| self.open.values().any(|it| it.stage.parent_id == Some(*id));
        let mut named = Vec::new();
        // So many are looked at: their number is a stranger's choice.
        for (id, open) in self.open.iter().rev().take(4 * MOST_NAMED) {
            if named.len() < MOST_NAMED && !is_parent(id) {
                named.push(path_text(&open.stage.path));
            }
        }
        if named.is_empty() {
            return NO_STAGE.to_owned();
        }
        named.join(", ").chars().take(LABEL_LIMIT).collect()
    }

    /// Folds a reading into every stage that is open.
    pub fn fold(&mut self, reading: &Reading) {
        for open in self.open.values_mut() {
            open.stage.statistics.fold(reading);
        }
    }

    /// Returns the open stages and the newest that have ended, in the order in which they began, as they are
    /// `elapsed_seconds` after the start of the collector.
    pub fn records(&self, elapsed_seconds: f64) -> Vec<Stage> {
        let open = self.open.values().map(|open| Stage {
            wall_seconds: (elapsed_seconds - open.stage.start_seconds).max(0.0),
            ..open.stage.clone()
        });
        let mut records: Vec<Stage> = self.ended.iter().cloned().chain(open).collect();
        records.sort_by_key(|stage| stage.id);
        records
    }

    /// Returns what all stages that have ended come to, by path.
    pub fn totals(&self) -> Vec<StageTotal> {
        self.totals.list()
    }

    fn open_of(&self, owner: Owner) -> impl Iterator<Item = u64> {
        self.open
            .iter()
            .filter(move |(_, open)| open.owner == owner)
            .map(|(id, _)| *id)
    }

    /// The stage that a new one lies in: as its owner says, else the innermost of the same thread that has no id.
    fn parent(&self, owner: Owner, begin: &Begin) -> Option<u64> {
        if let Some(parent) = &begin.parent {
            let pid = parent.pid.unwrap_or(owner.pid);
            if pid == owner.pid {
                return self.by_id.get(&(owner, parent.id.clone())).copied();
            }
            let mut open = self.open.iter();
            let is_it = |it: &Open| it.owner.pid == pid && it.given.as_ref() == Some(&parent.id);
            return open.find(|(_, it)| is_it(it)).map(|(id, _)| *id);
        }
        if begin.id.is_some() {
            return None;
        }
        self.by_thread.get(&(owner, begin.thread))?.last().copied()
    }

    fn path(&self, parent: Option<u64>, name: &str) -> Vec<String> {
        let parent = parent.and_then(|id| self.open.get(&id));
        let outer = parent.map_or(&[][..], |open| &open.stage.path);
        let skipped = (outer.len() + 1).saturating_sub(DEEPEST);
        let names = outer.iter().skip(skipped).cloned();
        names.chain([name.to_owned()]).collect()
    }

    fn find(&self, owner: Owner, end: &End) -> Option<u64> {
        if let Some(given) = &end.id {
            return self.by_id.get(&(owner, given.clone())).copied();
        }
        let stack = self.by_thread.get(&(owner, end.thread))?;
        let is_it = |id: &&u64| {
            let name = self.open.get(*id).map(|open| open.stage.name.as_str());
            end.name.is_none() || name == end.name.as_deref()
        };
        stack.iter().rev().find(is_it).copied()
    }

    fn close(
        &mut self,
        id: u64,
        by: EndedBy,
        error: Option<String>,
        seconds: Option<f64>,
        now: Moment,
    ) -> Option<&Stage> {
        let Open {
            given,
            owner,
            mut stage,
            ..
        } = self.open.remove(&id)?;
        if let Some(given) = given {
            self.by_id.remove(&(owner, given));
        } else if let Entry::Occupied(mut stack) = self.by_thread.entry((owner, stage.thread)) {
            stack.get_mut().retain(|other| *other != id);
            if stack.get().is_empty() {
                stack.remove();
            }
        }
        let measured = (now.elapsed_seconds - stage.start_seconds).max(0.0);
        stage.wall_seconds = seconds.unwrap_or(measured);
        stage.ended_at = Some(now.at);
        stage.ended_by = Some(by);
        stage.error = error;
        self.totals.add(&stage);
        self.ended_count += 1;
        if self.ended.len() >= MOST_ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back(stage);
        self.ended.back()
    }
}

#[cfg(test)]
mod tests;
