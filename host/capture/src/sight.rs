//! The environment of each process as it was when the process was first seen running its present program.
//!
//! The kernel's text is that of exec time and does not change, except that a process may write its title over it. So
//! what was once read stays true until the next exec, which is told by the executable and by the bottom of the stack. A rank
//! that a program sets itself is in its memory alone: there it is looked for again, ever more rarely.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{EnvironmentSource, ProcessId};
use serde::{Deserialize, Serialize};

use crate::environment::has_rank;
use crate::image::{Environ, Image, Variables};

/// Which exec of a process its memory comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Generation {
    pub(crate) exe: OsString,
    /// The bottom of the stack; not 0.
    pub(crate) start_stack: u64,
}

impl Generation {
    /// Returns that of a process with this executable and this bottom of its stack; nothing where the stack is not shown.
    pub(crate) fn of(exe: &OsStr, start_stack: u64) -> Option<Self> {
        (start_stack != 0).then(|| Self {
            exe: plain(exe).to_owned(),
            start_stack,
        })
    }
}

/// The path without the mark of a file that was replaced or removed while it runs.
pub(crate) fn plain(exe: &OsStr) -> &OsStr {
    let name = exe.as_bytes();
    OsStr::from_bytes(name.strip_suffix(b" (deleted)").unwrap_or(name))
}

/// What was kept of the environments of processes.
#[derive(Debug, Default)]
pub(crate) struct Sights(Mutex<BTreeMap<ProcessId, Sight>>);

#[derive(Clone, Debug)]
struct Sight {
    /// Absent where it could not be told: then only the process itself says what it is of.
    generation: Option<Generation>,
    /// How often a rank that it may have set since was looked for.
    looks: u32,
    /// For how many captures it is not looked for.
    rest: u32,
    source: EnvironmentSource,
    variables: Variables,
}

/// The most captures between two looks for a rank.
const LONGEST_REST: u32 = 32;

impl Sights {
    /// Forgets all processes but `ids`.
    pub(crate) fn keep(&self, ids: &[ProcessId]) {
        let ids: BTreeSet<&ProcessId> = ids.iter().collect();
        self.lock().retain(|id, _| ids.contains(id));
    }

    /// Returns of which exec the environment of each process is known; those need not be read again.
    pub(crate) fn known(&self) -> BTreeMap<ProcessId, Generation> {
        let sights = self.lock();
        let known = sights
            .iter()
            .filter_map(|(&id, sight)| Some((id, sight.generation.clone()?)));
        known.collect()
    }

    /// Returns whose environment has no rank and is to be looked at now: at each after 1, 2, 4 … captures.
    pub(crate) fn rankless(&self) -> BTreeSet<ProcessId> {
        let mut sights = self.lock();
        let due = sights
            .iter_mut()
            .filter_map(|(&id, sight)| sight.is_due().then_some(id));
        due.collect()
    }

    /// Returns the listed variables of `image`, a child of `parent`, and where they come from if they were not read just
    /// now. What is found elsewhere is no gap.
    pub(crate) fn settle(
        &self,
        image: &mut Image,
        parent: i32,
    ) -> (Variables, Option<EnvironmentSource>) {
        let generation = image.generation();
        let mut sights = self.lock();
        if let Environ::Read(variables) = &mut image.environ {
            let variables = std::mem::take(variables);
            let sight = Sight::new(generation, EnvironmentSource::FirstSight, variables.clone());
            sights.insert(image.id, sight);
            return (variables, None);
        }
        let known = sights
            .get(&image.id)
            .filter(|sight| sight.is_of(generation.as_ref(), image.exe.as_deref()));
        let found = match (
            known,
            std::mem::replace(&mut image.environ, Environ::Missing),
        ) {
            // A rank that was set since.
            (Some(known), Environ::InMemory(variables)) => Some(Sight {
                source: EnvironmentSource::Memory,
                variables,
                ..known.clone()
            }),
            (Some(known), _) => {
                image.found_environment();
                return (known.variables.clone(), Some(known.source));
            }
            (None, Environ::InMemory(variables)) => {
                Some(Sight::new(generation, EnvironmentSource::Memory, variables))
            }
            (None, _) => of_parent(&sights, parent, generation.as_ref()),
        };
        let Some(sight) = found else {
            return (Variables::new(), None);
        };
        image.found_environment();
        sights.insert(image.id, sight.clone());
        (sight.variables, Some(sight.source))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ProcessId, Sight>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of the parent, if it runs the same image: the process was forked from it.
fn of_parent(
    sights: &BTreeMap<ProcessId, Sight>,
    parent: i32,
    generation: Option<&Generation>,
) -> Option<Sight> {
    let first = ProcessId {
        pid: parent,
        start_time_ticks: 0,
    };
    let (id, sight) = sights.range(first..).next()?;
    let is_image = generation.is_some() && sight.generation.as_ref() == generation;
    (id.pid == parent && is_image).then(|| Sight {
        source: EnvironmentSource::Parent,
        ..sight.clone()
    })
}

impl Sight {
    fn new(
        generation: Option<Generation>,
        source: EnvironmentSource,
        variables: Variables,
    ) -> Self {
        Self {
            generation,
            looks: 0,
            rest: 0,
            source,
            variables,
        }
    }

    /// Whether a rank is to be looked for in this capture. One that was just set may not have all of its numbers yet.
    fn is_due(&mut self) -> bool {
        let is_whole =
            self.source != EnvironmentSource::Memory || self.variables.contains_key("WORLD_SIZE");
        if has_rank(&self.variables) && is_whole {
            return false;
        }
        if self.rest > 0 {
            self.rest -= 1;
            return false;
        }
        self.rest = 2_u32.saturating_pow(self.looks).min(LONGEST_REST) - 1;
        self.looks = self.looks.saturating_add(1);
        true
    }

    /// Whether it is of this exec, as far as can be told: of a zombie, and of what may no longer be looked into, it
    /// cannot.
    fn is_of(&self, generation: Option<&Generation>, exe: Option<&OsStr>) -> bool {
        match (&self.generation, generation, exe) {
            (Some(known), Some(now), _) => known == now,
            (Some(known), None, Some(exe)) => known.exe == plain(exe),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(source: EnvironmentSource, names: &[&str]) -> Sight {
        let variables = names.iter().map(|&name| (name.to_owned(), "1".to_owned()));
        Sight::new(None, source, variables.collect())
    }

    #[test]
    fn a_rank_is_looked_for_ever_more_rarely() {
        let mut rankless = sight(EnvironmentSource::FirstSight, &["NODE_RANK"]);
        let due: Vec<usize> = (0..130).filter(|_| rankless.is_due()).collect();
        assert_eq!(due, [0, 1, 3, 7, 15, 31, 63, 95, 127]);
    }

    #[test]
    fn a_rank_that_is_whole_is_not_looked_for() {
        assert!(!sight(EnvironmentSource::FirstSight, &["RANK"]).is_due());
        // Set within the program, perhaps just now.
        assert!(sight(EnvironmentSource::Memory, &["RANK"]).is_due());
        assert!(!sight(EnvironmentSource::Memory, &["RANK", "WORLD_SIZE"]).is_due());
    }
}
