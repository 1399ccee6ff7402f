//! The rule, without any WebAssembly: processes and their environment in, annotations and findings out.
//!
//! A job is all processes with the same run id, master and restart count. Of the processes that carry one rank of a
//! job, the topmost is the rank. Those below it have its environment: what is a copy of it, or was started by Python's
//! `multiprocessing`, is a worker (a data loader), all else a helper, and so is a shell around a rank. Whoever started
//! ranks without being one is a launcher. What is claimed, and when nothing is claimed, is told in `README.md`.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::{Group, program};
use crate::job::{Job, Place, Source};
use crate::ranges;

/// One process, as far as the rule looks at it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Process {
    /// Its arguments.
    pub(crate) cmdline: Vec<String>,
    /// The variables of [`crate::job::VARIABLES`] that it has.
    pub(crate) environment: BTreeMap<String, String>,
    /// The kernel's name for it.
    pub(crate) name: String,
    /// Its process id.
    pub(crate) pid: u32,
    /// Its parent's.
    pub(crate) ppid: u32,
    /// Whether it is a Python interpreter.
    pub(crate) python: bool,
    /// When it started.
    pub(crate) start_ticks: u64,
    /// Whether it has ended.
    pub(crate) zombie: bool,
}

/// All that the rule says.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) annotations: Vec<Annotation>,
    pub(crate) findings: Vec<Finding>,
}

/// One statement.
#[derive(Debug, PartialEq)]
pub(crate) struct Annotation {
    pub(crate) target: Target,
    pub(crate) key: &'static str,
    pub(crate) value: Value,
}

/// What a statement is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    Process(u32),
    Group(String),
}

/// What it says.
#[derive(Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Number(u32),
}

/// One claim about a group, with pointers into the snapshot document and the JSON text there.
#[derive(Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) group: String,
    pub(crate) evidence: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Rank,
    Worker,
    Helper,
    Launcher,
}

/// Says which process is which rank, and which ranks are missing or there twice.
pub(crate) fn judge(processes: &[Process]) -> Answer {
    let view = View::of(processes);
    let mut answer = Answer::default();
    let groups = view.groups();
    for group in &groups {
        group.annotate(&view, &mut answer);
        if let Some(missing) = group.missing(&view, &groups) {
            let text = ranges::text(&missing);
            answer.note_group(&group.name, "missing-ranks", Value::Text(text));
            answer.findings.push(group.missing_finding(&view, &missing));
        }
        if !group.duplicates.is_empty() {
            let text = ranges::text(&ranges::of(&group.duplicate_ranks()));
            answer.note_group(&group.name, "duplicate-ranks", Value::Text(text));
            answer.findings.push(group.duplicate_finding(&view));
        }
    }
    view.annotate_launchers(&groups, &mut answer);
    answer
}

/// The processes with their places and their parents; every number is an index into `processes`.
pub(crate) struct View<'a> {
    pub(crate) parents: Vec<Option<usize>>,
    pub(crate) places: Vec<Option<Place>>,
    pub(crate) processes: &'a [Process],
    pub(crate) source: Source,
}

impl<'a> View<'a> {
    fn of(processes: &'a [Process]) -> Self {
        let places = |source| -> Vec<Option<Place>> {
            let of = |process: &Process| Place::of(&process.environment, source);
            processes.iter().map(of).collect()
        };
        let source = Source::ALL
            .into_iter()
            .find(|&source| places(source).iter().any(Option::is_some));
        let source = source.unwrap_or(Source::Torch);
        let by_pid: BTreeMap<u32, usize> = processes
            .iter()
            .enumerate()
            .map(|(index, process)| (process.pid, index))
            .collect();
        let parent = |process: &Process| by_pid.get(&process.ppid).copied();
        let mut view = Self {
            parents: processes.iter().map(parent).collect(),
            places: places(source),
            processes,
            source,
        };
        view.forget_jobs_around_torchrun();
        view.take_over_places();
        view
    }

    /// Parents, grandparents and so on; ends even if a torn snapshot has a circle.
    pub(crate) fn ancestors(&self, index: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(self.parents[index], |&parent| self.parents[parent])
            .take(self.processes.len())
    }

    /// Some operators number the *nodes* with RANK and start torchrun below, which numbers the ranks anew: the
    /// outer numbers are no ranks.
    fn forget_jobs_around_torchrun(&mut self) {
        let mut outer = BTreeSet::new();
        for (index, place) in self.places.iter().enumerate() {
            if place
                .as_ref()
                .is_some_and(|place| place.job.restart.is_some())
            {
                let around = self
                    .ancestors(index)
                    .filter_map(|above| self.places[above].as_ref());
                let jobs = around
                    .map(|place| &place.job)
                    .filter(|job| job.restart.is_none());
                outer.extend(jobs.cloned());
            }
        }
        for place in &mut self.places {
            if place
                .as_ref()
                .is_some_and(|place| outer.contains(&place.job))
            {
                *place = None;
            }
        }
    }

    /// A process whose environment is empty, because it was cleared or cannot be read, is of its parent's rank.
    fn take_over_places(&mut self) {
        for index in 0..self.processes.len() {
            let is_bare = |one: usize| {
                self.places[one].is_none() && self.processes[one].environment.is_empty()
            };
            if !is_bare(index) {
                continue;
            }
            let above = self.ancestors(index).find(|&above| !is_bare(above));
            self.places[index] = above.and_then(|above| self.places[above].clone());
        }
    }

    /// Who started the rank `number` whose topmost process is `top`, and the shells between them that gave it this number:
    /// one that was a rank of another launcher with the same number, such as `mpirun sh -c 'RANK=$PMI_RANK python …'`.
    pub(crate) fn launcher(&self, top: usize, number: u32) -> (Option<usize>, Vec<usize>) {
        let gave_number = |index: usize| {
            let environment = &self.processes[index].environment;
            let mut others = Source::ALL.into_iter().filter(|&one| one != self.source);
            is_shell(&self.processes[index].name)
                && others.any(|one| {
                    Place::of(environment, one).is_some_and(|place| place.rank == number)
                })
        };
        let mut shells = Vec::new();
        for above in self.ancestors(top) {
            if self.places[above].is_some() {
                return (None, Vec::new());
            }
            if !gave_number(above) {
                return (Some(above), shells);
            }
            shells.push(above);
        }
        (None, shells)
    }

    pub(crate) fn same_rank(&self, one: usize, other: usize) -> bool {
        match (&self.places[one], &self.places[other]) {
            (Some(one), Some(other)) => one.rank == other.rank && one.job == other.job,
            _ => false,
        }
    }

    fn groups(&self) -> Vec<Group> {
        let mut members: BTreeMap<&Job, Vec<usize>> = BTreeMap::new();
        for (index, place) in self.places.iter().enumerate() {
            if let Some(place) = place {
                members.entry(&place.job).or_default().push(index);
            }
        }
        let mut uses: BTreeMap<String, usize> = BTreeMap::new();
        for job in members.keys() {
            *uses.entry(job.name()).or_default() += 1;
        }
        let name = |job: &Job| {
            if uses[&job.name()] == 1 {
                job.name()
            } else {
                job.full_name()
            }
        };
        members
            .into_iter()
            .map(|(job, members)| Group::of(self, name(job), job.clone(), &members))
            .collect()
    }

    /// Follows a shell or another wrapper that is no Python down to what it runs. Returns the rank and the wrappers.
    pub(crate) fn unwrap_rank(&self, top: usize) -> (usize, Vec<usize>) {
        let mut rank = top;
        let mut wrappers = Vec::new();
        while !self.processes[rank].python && !self.processes[rank].zombie {
            let mut inside = (0..self.processes.len())
                .filter(|&child| self.parents[child] == Some(rank) && self.same_rank(child, rank));
            let (Some(child), None) = (inside.next(), inside.next()) else {
                break;
            };
            if wrappers.contains(&child)
                || !(is_shell(&self.processes[rank].name) || self.processes[child].python)
            {
                break;
            }
            wrappers.push(rank);
            rank = child;
        }
        (rank, wrappers)
    }

    /// Whether `child` of a launcher may be a rank that is between fork and exec, or whose environment was read
    /// just then: it still looks like the launcher, like nothing, or like a rank without a number.
    pub(crate) fn is_starting(&self, child: usize, launcher: usize, group: &Group) -> bool {
        let process = &self.processes[child];
        let childless = !self.parents.contains(&Some(child));
        let looks_like_a_rank = || {
            group
                .ranks
                .values()
                .any(|&rank| self.processes[rank].cmdline == process.cmdline)
        };
        self.parents[child] == Some(launcher)
            && self.places[child].is_none()
            && !process.zombie
            && childless
            && (process.cmdline.is_empty()
                || process.cmdline == self.processes[launcher].cmdline
                || looks_like_a_rank())
    }

    /// Launchers, and the known front ends above them, such as the `mpirun` above a `hydra_pmi_proxy`.
    fn annotate_launchers(&self, groups: &[Group], answer: &mut Answer) {
        let mut started: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
        for group in groups {
            for &launcher in &group.launchers {
                let above = self.ancestors(launcher).filter(|&above| {
                    self.places[above].is_none() && is_front_end(&self.processes[above].cmdline)
                });
                for index in above.chain([launcher]) {
                    started.entry(index).or_default().insert(&group.name);
                }
            }
        }
        for (launcher, groups) in started {
            let target = Target::Process(self.processes[launcher].pid);
            let mut names = groups.into_iter();
            if let (Some(name), None) = (names.next(), names.next()) {
                answer.note(&target, "group", Value::Text(name.to_owned()));
            }
            answer.note(
                &target,
                "role",
                Value::Text(Role::Launcher.name().to_owned()),
            );
        }
    }

    /// A pointer to `variable` of a process, with the value there.
    pub(crate) fn evidence(&self, index: usize, variable: &str) -> Option<(String, String)> {
        let value = self.processes[index].environment.get(variable)?;
        let pointer = format!("/processes/{index}/distributed_environment/{variable}");
        Some((pointer, json_text(value)))
    }
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rank => "rank",
            Self::Worker => "worker",
            Self::Helper => "helper",
            Self::Launcher => "launcher",
        }
    }
}

impl Answer {
    pub(crate) fn note(&mut self, target: &Target, key: &'static str, value: Value) {
        self.annotations.push(Annotation {
            target: target.clone(),
            key,
            value,
        });
    }

    pub(crate) fn note_number(&mut self, target: &Target, key: &'static str, number: Option<u32>) {
        if let Some(number) = number {
            self.note(target, key, Value::Number(number));
        }
    }

    fn note_group(&mut self, name: &str, key: &'static str, value: Value) {
        self.note(&Target::Group(name.to_owned()), key, value);
    }
}

/// Whether a command line is that of a program that starts launchers of ranks.
fn is_front_end(cmdline: &[String]) -> bool {
    const NAMES: [&str; 10] = [
        "accelerate",
        "deepspeed",
        "mpiexec",
        "mpiexec.hydra",
        "mpirun",
        "orterun",
        "pdsh",
        "prterun",
        "srun",
        "torchrun",
    ];
    // Of a Python program the script is the second argument.
    let is_known = |path: &String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let plain = name
            .strip_suffix(".openmpi")
            .or(name.strip_suffix(".mpich"));
        NAMES.contains(&plain.unwrap_or(name))
    };
    let module = program(cmdline).is_some_and(|module| {
        module.starts_with("accelerate.commands") || module.starts_with("deepspeed.launcher")
    });
    module || cmdline.iter().take(2).any(is_known)
}

fn is_shell(name: &str) -> bool {
    [
        "ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "sh", "tcsh", "zsh",
    ]
    .contains(&name)
}

/// `text` as a JSON string.
pub(crate) fn json_text(text: &str) -> String {
    let quoted = |character: char| match character {
        '"' | '\\' => format!("\\{character}"),
        control if u32::from(control) < 0x20 => format!("\\u{:04x}", u32::from(control)),
        other => other.to_string(),
    };
    let quoted: String = text.chars().map(quoted).collect();
    format!("\"{quoted}\"")
}

#[cfg(test)]
mod conventions;
#[cfg(test)]
mod tests;
