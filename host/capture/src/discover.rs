//! Which processes there are to look at now.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use model::{Gap, GapCode, ProcessId, ScopeFacts, ScopeKind};

use crate::cgroup;
use crate::cost::CpuClocks;
use crate::error::CaptureError;
use crate::family::Family;
use crate::machine::Machine;
use crate::newcomers;
use crate::proc::Stat;
use crate::scope::Scope;

/// The processes of the task at one moment.
#[derive(Debug)]
pub struct Targets {
    /// How they were found.
    pub scope: ScopeFacts,
    /// The processes, by PID.
    pub processes: Vec<ProcessId>,
    /// What of the scope could not be found out.
    pub gaps: Vec<Gap>,
    /// When the discovery began.
    pub(crate) began: Instant,
    /// What had been used when it began.
    pub(crate) clocks: CpuClocks,
    /// The lines of the main process's `cgroup` file.
    pub(crate) root_cgroup: Vec<String>,
    /// What was known of each process when it was found.
    pub(crate) stats: BTreeMap<ProcessId, Stat>,
}

/// What discovery knows of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Whether it has ended and its parent has not taken its status yet.
    pub is_zombie: bool,
    /// `comm`, up to 15 bytes; what is no text is U+FFFD.
    pub name: String,
    /// Its parent's PID.
    pub ppid: i32,
    /// Who it is.
    pub process: ProcessId,
}

impl Targets {
    /// Returns what discovery found out about each process, by PID.
    pub fn found(&self) -> impl Iterator<Item = Found> {
        self.stats.iter().map(|(&process, stat)| Found {
            is_zombie: matches!(stat.state, 'Z' | 'X' | 'x'),
            name: String::from_utf8_lossy(&stat.comm).into_owned(),
            ppid: stat.ppid,
            process,
        })
    }

    /// Returns how many of the processes have not ended; a zombie has.
    pub fn living(&self) -> usize {
        self.found().filter(|found| !found.is_zombie).count()
    }
}

/// Finds the living processes of `scope`, which remembers them. The error says that none is left.
pub fn discover(machine: &Machine, scope: &mut Scope) -> Result<Targets, CaptureError> {
    let began = Instant::now();
    let clocks = CpuClocks::read(&machine.helper_pids());
    let mut gaps = Vec::new();
    let mut family = Family::of(machine).map_err(|source| CaptureError::Unreadable {
        path: machine.proc.clone(),
        source,
    })?;
    let last = machine.last_pid(&mut family.reader);
    let look = Look { began, last };
    let stats = living(machine, family, scope, BTreeMap::new(), look, &mut gaps);
    if stats.is_empty() {
        return Err(CaptureError::NothingLeft { root: scope.root });
    }
    Ok(Targets {
        scope: ScopeFacts {
            cgroup: scope
                .directory
                .as_ref()
                .map(|path| path.display().to_string()),
            kind: scope.kind,
            root: scope.root,
        },
        processes: stats.keys().copied().collect(),
        gaps,
        began,
        clocks,
        root_cgroup: scope.root_cgroup.clone(),
        stats,
    })
}

/// When a look for processes began, and the PID that the kernel had given last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) began: Instant,
    pub(crate) last: Option<i32>,
}

/// Returns the living processes of `scope`, which remembers them; `known` are those of them that have been read already. Of a tree only
/// those that began since the last look are looked for where that is enough; so of a cgroup, where no process at all has begun.
pub(crate) fn living(
    machine: &Machine,
    mut family: Family,
    scope: &mut Scope,
    mut known: BTreeMap<ProcessId, Stat>,
    look: Look,
    gaps: &mut Vec<Gap>,
) -> BTreeMap<ProcessId, Stat> {
    if family.stat_of(scope.root).is_some()
        && let Ok(lines) = family.cgroup_lines(scope.root.pid)
    {
        scope.root_cgroup = lines;
    }
    let given = scope.numbers().given(look.last, look.began);
    let given = given.filter(|given| match scope.kind {
        ScopeKind::Tree => true,
        ScopeKind::Cgroup => given.is_empty() && !known.is_empty(),
    });
    if let Some(given) = given {
        newcomers::add(machine, &mut family, scope, &mut known, given);
    }
    let is_whole = given.is_none() || known.is_empty();
    if is_whole {
        known = members(machine, family, scope, gaps);
    }
    scope.numbers().looked(look.began, look.last, is_whole);
    scope.reaping().saw(&known, look.began);
    known
}

/// Returns the living processes of `scope`, which remembers them, whenever they began.
fn members(
    machine: &Machine,
    mut family: Family,
    scope: &mut Scope,
    gaps: &mut Vec<Gap>,
) -> BTreeMap<ProcessId, Stat> {
    // Until all have been found: a compiler of plugins may be started at any moment.
    let helpers = machine.helpers.hold();
    let before = scope.members().clone();
    let ours = machine.our_pids(&helpers);
    let found = match scope.kind {
        ScopeKind::Tree => tree(&mut family, scope, &ours),
        ScopeKind::Cgroup => match cgroup_members(machine, &mut family, scope, &ours) {
            Ok(found) => found,
            Err(gap) => {
                gaps.push(gap);
                tree(&mut family, scope, &ours)
            }
        },
    };
    let stats: BTreeMap<ProcessId, Stat> = found
        .into_values()
        .map(|stat| (identity(&stat), stat))
        .collect();
    if !stats.is_empty() {
        let mut members = scope.members();
        // Who has been found by others meanwhile stays.
        members.retain(|id| !before.contains(id));
        members.extend(stats.keys());
    }
    stats
}

/// Returns the living members of the scope and all their descendants, by PID.
pub(crate) fn tree(
    family: &mut Family,
    scope: &Scope,
    ours: &BTreeSet<i32>,
) -> BTreeMap<i32, Stat> {
    let mut excluded = ours.clone();
    excluded.extend(scope.adopter);
    let mut found = BTreeMap::new();
    let mut members = scope.members().clone();
    members.insert(scope.root);
    let members: Vec<Stat> = members
        .into_iter()
        .filter_map(|member| family.stat_of(member))
        .collect();
    for stat in &members {
        family.note(stat);
    }
    for stat in members {
        family.collect(stat, &excluded, &mut found);
    }
    // Last: a process whose parent ended while we looked has been handed to the adopter by now.
    if let Some(adopter) = scope.adopter
        && let Some(stat) = family.stat(adopter)
    {
        for orphan in family.children(adopter, stat.threads) {
            family.collect(orphan, &excluded, &mut found);
        }
    }
    found
}

/// Returns the processes of the main process's cgroup, by PID; the gap says why the cgroup cannot be told.
fn cgroup_members(
    machine: &Machine,
    family: &mut Family,
    scope: &mut Scope,
    ours: &BTreeSet<i32>,
) -> Result<BTreeMap<i32, Stat>, Gap> {
    if scope.directory.is_none() {
        scope.directory = cgroup::of_task(machine, &scope.root_cgroup);
    }
    let Some(directory) = &scope.directory else {
        let detail = "the main process is in the root cgroup, or in one that is not mounted here; its tree is watched";
        return Err(Gap::new("scope", GapCode::Unsupported).with_detail(detail));
    };
    let pids = cgroup::pids(directory, &mut family.reader).map_err(|error| {
        let detail = format!("{}: {error}; its tree is watched", directory.display());
        Gap::new("scope", crate::error::gap_code(&error)).with_detail(detail)
    })?;
    let excluded = ours_and_below(family, scope, ours);
    let members = pids.into_iter().filter(|pid| !excluded.contains(pid));
    let stats = members.filter_map(|pid| Some((pid, family.stat(pid)?)));
    Ok(stats.collect())
}

/// Our own PIDs and what our helpers started. Of our own children only helpers are ours where we are the adopter;
/// otherwise all are.
fn ours_and_below(family: &mut Family, scope: &Scope, ours: &BTreeSet<i32>) -> BTreeSet<i32> {
    let mut below = BTreeMap::new();
    for &pid in ours {
        let Some(stat) = family.stat(pid) else {
            continue;
        };
        if scope.adopter == Some(pid) {
            below.insert(pid, stat);
        } else {
            family.collect(stat, &BTreeSet::new(), &mut below);
        }
    }
    below.into_keys().chain(ours.iter().copied()).collect()
}

pub(crate) fn identity(stat: &Stat) -> ProcessId {
    ProcessId {
        pid: stat.pid,
        start_time_ticks: stat.start_time_ticks,
    }
}
