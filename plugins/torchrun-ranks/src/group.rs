//! One job: who its ranks, workers and launchers are, and which ranks are missing or there twice.

use std::collections::{BTreeMap, BTreeSet};

use crate::job::{Job, Place};
use crate::ranges;
use crate::rule::{Answer, Finding, Role, Target, Value, View, json_text};

/// One job.
pub(crate) struct Group {
    /// Further processes that claim a rank which has one: the first of them, and the other.
    pub(crate) duplicates: Vec<(usize, usize)>,
    job: Job,
    /// Who started its ranks and is none.
    pub(crate) launchers: BTreeSet<usize>,
    /// What it is called in annotations.
    pub(crate) name: String,
    /// The process that is each rank, by rank.
    pub(crate) ranks: BTreeMap<u32, usize>,
    roles: BTreeMap<usize, Role>,
    /// Shells that gave a rank its number and have none themselves.
    wrappers: Vec<usize>,
}

impl Group {
    pub(crate) fn of(view: &View<'_>, name: String, job: Job, members: &[usize]) -> Self {
        let mut group = Self {
            duplicates: Vec::new(),
            job,
            launchers: BTreeSet::new(),
            name,
            ranks: BTreeMap::new(),
            roles: BTreeMap::new(),
            wrappers: Vec::new(),
        };
        let inherits = |member: usize| {
            view.ancestors(member)
                .any(|above| view.same_rank(above, member))
        };
        let mut tops: Vec<usize> = members
            .iter()
            .copied()
            .filter(|&member| !inherits(member))
            .collect();
        // The oldest living one first: that is the rank, if several claim to be.
        tops.sort_by_key(|&top| {
            let process = &view.processes[top];
            (process.zombie, process.start_ticks, process.pid)
        });
        let is_launched = tops.iter().any(|&top| view.parents[top].is_some());
        for top in tops {
            // Where others have their launcher, one without a parent here is what a dead rank left behind.
            if view.parents[top].is_some() || !is_launched {
                group.claim(view, top);
            }
        }
        for &member in members {
            if !group.roles.contains_key(&member) {
                group.roles.insert(member, group.role_below(view, member));
            }
        }
        group
    }

    /// What a process is that has a rank of this job and is not that rank.
    fn role_below(&self, view: &View<'_>, member: usize) -> Role {
        let process = &view.processes[member];
        let forked = program(&process.cmdline);
        let is_like = |&rank: &usize| program(&view.processes[rank].cmdline) == forked;
        let is_copy = forked.is_some() && self.ranks.values().any(is_like);
        let server = view.parents[member].is_some_and(|parent| {
            let above = &view.processes[parent].cmdline;
            above == &process.cmdline && is_fork_server(above)
        });
        if is_copy || server || is_spawned(&process.cmdline) || process.name == "pt_data_worker" {
            Role::Worker
        } else {
            Role::Helper
        }
    }

    /// Takes the process `top` as a rank, or as a duplicate of the rank that there is.
    fn claim(&mut self, view: &View<'_>, top: usize) {
        let Some(place) = &view.places[top] else {
            return;
        };
        let (index, wrappers) = view.unwrap_rank(top);
        let (launcher, shells) = view.launcher(top, place.rank);
        if let Some(&first) = self.ranks.get(&place.rank) {
            let (process, rank) = (&view.processes[index], &view.processes[first]);
            let living = !process.zombie && !rank.zombie;
            if living && launcher.is_some() && program(&process.cmdline) == program(&rank.cmdline) {
                self.duplicates.push((first, index));
                self.roles.insert(index, Role::Rank);
            }
            return;
        }
        self.launchers.extend(launcher);
        self.ranks.insert(place.rank, index);
        self.wrappers.extend(shells);
        self.roles
            .extend(wrappers.into_iter().map(|wrapper| (wrapper, Role::Helper)));
        self.roles.insert(index, Role::Rank);
    }

    pub(crate) fn annotate(&self, view: &View<'_>, answer: &mut Answer) {
        for (&index, role) in &self.roles {
            let Some(place) = &view.places[index] else {
                continue;
            };
            let target = Target::Process(view.processes[index].pid);
            answer.note(&target, "group", Value::Text(self.name.clone()));
            answer.note_number(&target, "local-rank", place.local_rank);
            answer.note_number(&target, "node", place.node);
            answer.note_number(&target, "rank", Some(place.rank));
            answer.note(&target, "role", Value::Text(role.name().to_owned()));
            answer.note_number(&target, "world-size", place.world_size);
        }
        for &wrapper in &self.wrappers {
            let target = Target::Process(view.processes[wrapper].pid);
            answer.note(&target, "group", Value::Text(self.name.clone()));
            answer.note(&target, "role", Value::Text(Role::Helper.name().to_owned()));
        }
        let target = Target::Group(self.name.clone());
        answer.note_number(&target, "world-size", self.world_size(view));
    }

    /// The places of the ranks that live, by rank.
    fn living<'a>(&'a self, view: &'a View<'_>) -> impl Iterator<Item = &'a Place> {
        let living = self
            .ranks
            .values()
            .filter(|&&index| !view.processes[index].zombie);
        living.filter_map(|&index| view.places[index].as_ref())
    }

    /// The number of ranks, if all agree on it.
    fn world_size(&self, view: &View<'_>) -> Option<u32> {
        agreed(
            self.ranks
                .values()
                .map(|&index| view.places[index].as_ref()?.world_size),
        )
    }

    /// The ranks that should be on this node and do not run, or `None` where nothing can be said.
    pub(crate) fn missing(&self, view: &View<'_>, groups: &[Self]) -> Option<Vec<(u32, u32)>> {
        let is_superseded = groups.iter().any(|other| {
            other.job.run == self.job.run
                && other.job.restart > self.job.restart
                && !other.launchers.is_disjoint(&self.launchers)
        });
        let is_starting = |&launcher: &usize| {
            (0..view.processes.len()).any(|child| view.is_starting(child, launcher, self))
        };
        if self.launchers.is_empty() || is_superseded || self.launchers.iter().any(is_starting) {
            return None;
        }
        let present: Vec<u32> = self.living(view).map(|place| place.rank).collect();
        let expected = self.expected(view)?;
        let missing: Vec<(u32, u32)> = expected
            .into_iter()
            .flat_map(|(from, to)| ranges::missing(from, to, &present))
            .collect();
        (!missing.is_empty() && !present.is_empty()).then_some(missing)
    }

    /// The ranks that this node should have, as half-open ranges in order.
    fn expected(&self, view: &View<'_>) -> Option<Vec<(u32, u32)>> {
        let world = self.world_size(view)?;
        let places: Vec<&Place> = self
            .ranks
            .values()
            .filter_map(|&index| view.places[index].as_ref())
            .collect();
        if places.iter().all(|place| place.is_on_one_node()) {
            // A lone rank that names no local size may be one of several started by hand in several places.
            let certain =
                places.len() > 1 || places.iter().all(|place| place.local_world_size.is_some());
            return certain.then(|| vec![(0, world)]);
        }
        let mut nodes: BTreeMap<Option<u32>, Vec<&Place>> = BTreeMap::new();
        for place in places {
            nodes.entry(place.node).or_default().push(place);
        }
        let mut expected = Vec::new();
        for (node, places) in nodes {
            let local = agreed(places.iter().map(|place| place.local_world_size))?;
            let first = match agreed(
                places
                    .iter()
                    .map(|place| place.rank.checked_sub(place.local_rank?)),
            ) {
                Some(first) => first,
                // Only where no rank says which one it is on its node.
                None if places.iter().all(|place| place.local_rank.is_none()) => {
                    node?.checked_mul(local)?
                }
                None => return None,
            };
            expected.push((first, first.checked_add(local)?.min(world)));
        }
        expected.sort_unstable();
        let overlap = expected.windows(2).any(|pair| pair[0].1 > pair[1].0);
        (!overlap).then_some(expected)
    }

    pub(crate) fn missing_finding(&self, view: &View<'_>, missing: &[(u32, u32)]) -> Finding {
        let world = self
            .world_size(view)
            .map_or_else(String::new, |world| format!(" of {world}"));
        let text = ranges::text(missing);
        let mut message = if ranges::count(missing) == 1 {
            format!("Rank {text}{world} is not running")
        } else {
            format!("Ranks {text}{world} are not running")
        };
        let mut evidence = Vec::new();
        if let Some(&witness) = self
            .ranks
            .values()
            .find(|&&index| !view.processes[index].zombie)
        {
            for names in [view.source.world_size(), view.source.local_world_size()] {
                let mut told = names.iter();
                evidence.extend(told.find_map(|name| view.evidence(witness, name)));
            }
        }
        let ended: Vec<usize> = (0..view.processes.len())
            .filter(|&index| view.processes[index].zombie)
            .filter(|&index| {
                view.parents[index].is_some_and(|parent| self.launchers.contains(&parent))
            })
            .take(16)
            .collect();
        for &index in &ended {
            evidence.push((format!("/processes/{index}/state"), json_text("Z")));
        }
        if !ended.is_empty() {
            let pids: Vec<String> = ended
                .iter()
                .map(|&index| view.processes[index].pid.to_string())
                .collect();
            message = format!("{message}; ended and not reaped: PID {}", pids.join(", "));
        }
        self.finding("missing-ranks", message + ".", evidence)
    }

    pub(crate) fn duplicate_ranks(&self) -> Vec<u32> {
        let firsts: BTreeSet<usize> = self.duplicates.iter().map(|&(first, _)| first).collect();
        let is_double = |index: &usize| firsts.contains(index);
        self.ranks
            .iter()
            .filter(|(_, index)| is_double(index))
            .map(|(&rank, _)| rank)
            .collect()
    }

    pub(crate) fn duplicate_finding(&self, view: &View<'_>) -> Finding {
        let ranks = self.duplicate_ranks();
        let text = ranges::text(&ranges::of(&ranks));
        let noun = if ranks.len() == 1 { "Rank" } else { "Ranks" };
        let (first, second) = self.duplicates[0];
        let pids = (view.processes[first].pid, view.processes[second].pid);
        let message = format!(
            "{noun} {text}: more than one process, such as PID {} and {}.",
            pids.0, pids.1
        );
        let twins: BTreeSet<usize> = self
            .duplicates
            .iter()
            .take(16)
            .flat_map(|&(first, second)| [first, second])
            .collect();
        let evidence = twins
            .into_iter()
            .filter_map(|index| view.evidence(index, view.source.rank()));
        self.finding("duplicate-ranks", message, evidence.collect())
    }

    fn finding(
        &self,
        kind: &'static str,
        message: String,
        evidence: Vec<(String, String)>,
    ) -> Finding {
        Finding {
            kind,
            message,
            group: self.name.clone(),
            evidence,
        }
    }
}

/// The number that all say, if all say one and the same.
fn agreed(mut numbers: impl Iterator<Item = Option<u32>>) -> Option<u32> {
    let first = numbers.next()??;
    numbers.all(|number| number == Some(first)).then_some(first)
}

/// What a command line runs: its Python script or module, else its program.
pub(crate) fn program(cmdline: &[String]) -> Option<&String> {
    let is_script = |argument: &&String| {
        std::path::Path::new(argument.as_str())
            .extension()
            .is_some_and(|extension| extension == "py")
    };
    let module = cmdline
        .iter()
        .position(|argument| argument == "-m")
        .and_then(|flag| cmdline.get(flag + 1));
    module
        .or_else(|| cmdline.iter().find(is_script))
        .or_else(|| cmdline.first())
}

/// Whether Python's `multiprocessing` (or joblib) started this as a worker by the method `spawn`.
fn is_spawned(cmdline: &[String]) -> bool {
    let tells = |argument: &String| {
        argument == "--multiprocessing-fork"
            || argument.contains("multiprocessing.spawn import spawn_main")
            || argument.ends_with("popen_loky_posix")
    };
    cmdline.iter().any(tells)
}

/// Whether this is the process out of which `multiprocessing` forks workers by the method `forkserver`.
fn is_fork_server(cmdline: &[String]) -> bool {
    cmdline
        .iter()
        .any(|argument| argument.contains("multiprocessing.forkserver"))
}
