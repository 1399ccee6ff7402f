//! The memory cgroups of the task, and how many of the kills that each counts are accounted for.

use std::collections::BTreeMap;

use capture::MemoryCgroup;

/// By cgroup, how many of its kills are accounted for; none where it counts none.
#[derive(Debug, Default)]
pub(super) struct Cgroups(BTreeMap<MemoryCgroup, Option<u64>>);

impl Cgroups {
    /// Adds one that a process of the task was seen in; what it has counted by now is not ours.
    pub(super) fn note(&mut self, cgroup: &MemoryCgroup) {
        if !self.0.contains_key(cgroup) {
            self.0.insert(cgroup.clone(), cgroup.kills());
        }
    }

    /// Returns those that processes of the task were seen in.
    pub(super) fn all(&self) -> Vec<MemoryCgroup> {
        self.0.keys().cloned().collect()
    }

    /// Whether `cgroup`, which has counted `kills` by now, has one that no other process accounts for; it is then accounted for.
    pub(super) fn is_killed_for_memory(&mut self, cgroup: &MemoryCgroup, kills: u64) -> bool {
        match self.0.get_mut(cgroup) {
            Some(Some(known)) if *known < kills => {
                *known += 1;
                true
            }
            _ => false,
        }
    }

    /// Returns how many kills of `cgroup` no obituary accounts for; they are accounted for from now on.
    pub(super) fn unaccounted(&mut self, cgroup: &MemoryCgroup, kills: u64) -> u64 {
        match self.0.get_mut(cgroup) {
            Some(Some(known)) => {
                let more = kills.saturating_sub(*known);
                *known += more;
                more
            }
            _ => 0,
        }
    }
}
