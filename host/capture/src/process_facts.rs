//! What `stat` and the owner of a file tell of a process, as the model has it.

use std::os::fd::BorrowedFd;

use model::{NamespaceSet, ProcFacts};
use rustix::fs::{AtFlags, statat};

use crate::proc::{Stat, terminal};

/// Puts what `stat` says into `facts`.
pub(crate) fn of_stat(facts: &mut ProcFacts, stat: &Stat) {
    facts.utime_ticks = Some(stat.utime_ticks);
    facts.stime_ticks = Some(stat.stime_ticks);
    facts.cutime_ticks = Some(stat.cutime_ticks);
    facts.cstime_ticks = Some(stat.cstime_ticks);
    facts.minor_faults = stat.minor_faults;
    facts.major_faults = stat.major_faults;
    facts.child_minor_faults = stat.child_minor_faults;
    facts.child_major_faults = stat.child_major_faults;
    facts.process_group = stat.group;
    facts.session = stat.session;
    facts.terminal = stat.terminal.map(terminal::name);
    facts.foreground_group = stat.foreground_group.filter(|&group| group >= 0);
    facts.processor = stat.processor;
    facts.scheduling = stat.scheduling();
    if stat.state == 'Z' {
        // Who may not read `io` is told 0 as well.
        let is_told = |status: &i32| *status != 0 || !facts.io.is_empty();
        let status = stat.wait_status.filter(is_told);
        (facts.exit_code, facts.exit_signal) = status.map_or((None, None), ending);
    }
}

/// Returns the status or the signal that a process ended with.
fn ending(wait_status: i32) -> (Option<u8>, Option<u8>) {
    let [low, code, ..] = wait_status.to_le_bytes();
    // The upper bit of the signal says that a core was dumped.
    match low & 0x7f {
        0 => (Some(code), None),
        signal => (None, Some(signal)),
    }
}

/// Puts what its main thread says into `facts`: the files of `/proc/PID` itself are those of that thread, so they are
/// read once.
pub(crate) fn of_main_thread(facts: &mut ProcFacts, pid: i32) {
    let Some(main) = facts.threads.iter().find(|thread| thread.tid == pid) else {
        return;
    };
    facts.kernel_stack.clone_from(&main.kernel_stack);
    facts.schedstat.clone_from(&main.schedstat);
    facts.syscall.clone_from(&main.syscall);
    facts.wchan.clone_from(&main.wchan);
}

/// Returns whether the process in `directory`, which runs as `effective_uid`, is dumpable; nothing where that cannot be told. The files
/// of one that is not belong to root; the directory itself does not tell, and nor does a file of root's own process.
pub(crate) fn dumpable(directory: BorrowedFd<'_>, effective_uid: u32) -> Option<bool> {
    let owner = statat(directory, "stat", AtFlags::SYMLINK_NOFOLLOW)
        .ok()?
        .st_uid;
    match (owner, effective_uid) {
        (_, 0) => None,
        (owner, user) => Some(owner == user),
    }
}

/// The distinct sets of namespaces, with our own as the mark of one of them.
#[derive(Debug, Default)]
pub(crate) struct NamespaceTable {
    ours: Option<NamespaceSet>,
    sets: Vec<NamespaceSet>,
}

impl NamespaceTable {
    /// Returns an empty table that knows our own set.
    pub(crate) fn new(ours: Option<NamespaceSet>) -> Self {
        Self {
            ours,
            sets: Vec::new(),
        }
    }

    /// Returns the index of `set`.
    pub(crate) fn index(&mut self, mut set: NamespaceSet) -> u32 {
        set.ours = self.ours.as_ref() == Some(&set);
        let known = self.sets.iter().position(|known| *known == set);
        let index = known.unwrap_or_else(|| {
            self.sets.push(set);
            self.sets.len() - 1
        });
        u32::try_from(index).expect("there are fewer processes than 2^32")
    }

    pub(crate) fn finish(self) -> Vec<NamespaceSet> {
        self.sets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_namespaces_are_stored_once() {
        let set = |net| NamespaceSet {
            net: Some(net),
            ..NamespaceSet::default()
        };
        let mut table = NamespaceTable::new(Some(set(1)));
        let indices = [1, 2, 1, 2, 3].map(|net| table.index(set(net)));
        assert_eq!(indices, [0, 1, 0, 1, 2]);
        let ours: Vec<bool> = table.finish().iter().map(|set| set.ours).collect();
        assert_eq!(ours, [true, false, false]);
    }
}
