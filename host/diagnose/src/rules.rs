//! The rules: each names what it needs, what it proves, and what would refute it.

mod busy;
mod cgroups;
mod database;
mod deadlock;
mod ended;
mod gil;
mod inherited;
mod input;
mod knot;
mod limits;
mod lost;
mod memory;
mod pipes;
mod ranks;
mod stopped;
mod storage;
mod throttled;
mod waiting;
mod zombies;

pub(crate) use cgroups::levels as cgroup_levels;
pub(crate) use limits::limit as open_files_limit;

use crate::scene::Scene;
use crate::verdict::Verdict;

/// One rule.
pub struct Rule {
    /// A lower-case dashed name.
    pub name: &'static str,
    /// The facts that it needs.
    pub needs: &'static str,
    /// What they prove.
    pub proves: &'static str,
    /// What would show that it is otherwise.
    pub refuted_by: &'static str,
    /// Tries it; says why where it does not hold.
    pub(crate) holds: fn(&Scene<'_>) -> Result<Vec<Verdict>, String>,
}

/// Of what holds no more is told: the verdict and eight findings.
pub(crate) const MOST: usize = 9;

/// All rules, the most certain and most telling first.
const ALL: [&Rule; 26] = [
    &memory::KILLED,
    &memory::GONE,
    &stopped::RULE,
    &storage::RULE,
    &limits::SHARED_MEMORY,
    &limits::DISK,
    &limits::DESCRIPTORS,
    &gil::RULE,
    &ranks::DEAD,
    &deadlock::CIRCLE,
    &ranks::BEHIND,
    &inherited::RULE,
    &deadlock::THREADS,
    &lost::RULE,
    &lost::WORKER,
    &knot::RULE,
    &pipes::ORPHANED,
    &pipes::FULL,
    &busy::SHARED,
    &busy::STEPS,
    &waiting::FILE_LOCK,
    &database::RULE,
    &zombies::RULE,
    &input::RULE,
    &waiting::PEER,
    &waiting::CHILD,
];

/// Returns all rules in the order in which they are tried.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    ALL.into_iter().chain(OTHERS)
}

/// Rules about a task that gets on, or is not there any more.
const OTHERS: [&Rule; 3] = [&ended::RULE, &throttled::RULE, &memory::PRESSURE];
