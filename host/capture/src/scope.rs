//! Which processes belong to the task. A scope remembers those it has seen: a process whose parent ended is still
//! one of the task's.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{ProcessId, ScopeKind};

use crate::cgroup;
use crate::discover::tree;
use crate::family::Family;
use crate::machine::Machine;
use crate::newcomers::Numbers;
use crate::reaping::Reaping;

/// Which processes belong to a task, and which of them have been seen. A clone remembers together with the original.
#[derive(Clone, Debug)]
pub struct Scope {
    pub(crate) adopter: Option<i32>,
    /// The directory whose processes belong to the task, once it is known.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) kind: ScopeKind,
    /// Those that lived when we last looked.
    pub(crate) members: Arc<Mutex<BTreeSet<ProcessId>>>,
    /// Which numbers processes had when we last looked.
    numbers: Arc<Mutex<Numbers>>,
    /// Who was seen, and what parents say of children that were not.
    reaping: Arc<Mutex<Reaping>>,
    pub(crate) root: ProcessId,
    /// The lines of the main process's `cgroup` file, as last read.
    pub(crate) root_cgroup: Vec<String>,
}

impl Scope {
    /// Returns the scope of `root` and its descendants. `adopter` is the PID that orphans of the task are handed to:
    /// ours, where we are the child subreaper.
    pub fn tree(root: ProcessId, adopter: Option<i32>) -> Self {
        Self::new(ScopeKind::Tree, root, adopter)
    }

    /// Returns the scope of every process in the cgroup of `root` and below it.
    pub fn cgroup(root: ProcessId, adopter: Option<i32>) -> Self {
        Self::new(ScopeKind::Cgroup, root, adopter)
    }

    /// Returns the cgroup's scope if the cgroup of `root` is not the root one and holds only the task and us, else
    /// the tree's.
    pub fn auto(machine: &Machine, root: ProcessId, adopter: Option<i32>) -> Self {
        if holds_only_the_task(machine, root, adopter).unwrap_or(false) {
            Self::cgroup(root, adopter)
        } else {
            Self::tree(root, adopter)
        }
    }

    /// Returns the main process of the task.
    pub fn root(&self) -> ProcessId {
        self.root
    }

    /// Returns how many children parents of the task have reaped that no look has seen, at least, as samples show it.
    pub fn reaped_unseen(&self) -> u64 {
        self.reaping().unseen()
    }

    pub(crate) fn members(&self) -> MutexGuard<'_, BTreeSet<ProcessId>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reaping(&self) -> MutexGuard<'_, Reaping> {
        self.reaping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new(kind: ScopeKind, root: ProcessId, adopter: Option<i32>) -> Self {
        Self {
            adopter,
            directory: None,
            kind,
            members: Arc::default(),
            numbers: Arc::default(),
            reaping: Arc::default(),
            root,
            root_cgroup: Vec::new(),
        }
    }
}

fn holds_only_the_task(
    machine: &Machine,
    root: ProcessId,
    adopter: Option<i32>,
) -> std::io::Result<bool> {
    let helpers = machine.helpers.hold();
    let mut family = Family::of(machine)?;
    let lines = family.cgroup_lines(root.pid)?;
    let Some(directory) = cgroup::of_task(machine, &lines) else {
        return Ok(false);
    };
    let inside = cgroup::pids(&directory, &mut family.reader)?;
    let ours = machine.our_pids(&helpers);
    let task = tree(&mut family, &Scope::tree(root, adopter), &ours);
    let belongs = |pid: &i32| task.contains_key(pid) || ours.contains(pid) || adopter == Some(*pid);
    Ok(inside.contains(&root.pid) && inside.iter().all(belongs))
}
