//! How often each process was seen to have become another program.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::sync::{Mutex, PoisonError};

use model::ProcessId;

use crate::image::Image;
use crate::sight::plain;

/// Which program each process ran when it was last seen.
#[derive(Debug, Default)]
pub(crate) struct Execs(Mutex<BTreeMap<ProcessId, Seen>>);

#[derive(Debug)]
struct Seen {
    count: u32,
    exe: OsString,
    /// The bottom of its stack, at random for each exec; 0 where it was not shown.
    start_stack: u64,
}

impl Seen {
    /// Counts an exec, if there was one since the last look. The bottom of the stack was read before the executable: in
    /// the middle of an exec it may still be the old one, or none, beside the new executable.
    fn look(&mut self, exe: &OsStr, start_stack: u64) {
        if self.exe != exe {
            self.count = self.count.saturating_add(1);
            exe.clone_into(&mut self.exe);
            let is_old = start_stack == self.start_stack;
            self.start_stack = if is_old { 0 } else { start_stack };
        } else if start_stack != 0 {
            let is_other = self.start_stack != 0 && self.start_stack != start_stack;
            self.count = self.count.saturating_add(u32::from(is_other));
            self.start_stack = start_stack;
        }
    }
}

impl Execs {
    /// Forgets all processes but `ids`.
    pub(crate) fn keep(&self, ids: &[ProcessId]) {
        let ids: BTreeSet<&ProcessId> = ids.iter().collect();
        self.lock().retain(|id, _| ids.contains(id));
    }

    /// Returns how many times the process of `image` became another program since it was first seen: at least so many, for
    /// of several between two looks one is noticed. Nothing where its executable was never shown. What has ended keeps its
    /// number.
    pub(crate) fn count(&self, image: &Image) -> Option<u32> {
        let mut all = self.lock();
        let Some(exe) = image.exe.as_deref().map(plain) else {
            return all.get(&image.id).map(|seen| seen.count);
        };
        let start_stack = image.start_stack();
        let seen = all.entry(image.id).or_insert_with(|| Seen {
            count: 0,
            exe: exe.to_owned(),
            start_stack,
        });
        seen.look(exe, start_stack);
        Some(seen.count)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ProcessId, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The count after looks at these executables and bottoms of the stack, of which the first is the first sight.
    fn count(looks: &[(&str, u64)]) -> u32 {
        let mut seen = Seen {
            count: 0,
            exe: looks[0].0.into(),
            start_stack: looks[0].1,
        };
        for (exe, start_stack) in looks {
            seen.look(OsStr::new(exe), *start_stack);
        }
        seen.count
    }

    #[test]
    fn an_exec_is_another_executable_or_another_stack() {
        assert_eq!(count(&[("a", 1), ("a", 1)]), 0);
        assert_eq!(count(&[("a", 1), ("b", 2), ("b", 2)]), 1);
        assert_eq!(count(&[("a", 1), ("a", 2), ("a", 2), ("b", 3)]), 2);
    }

    #[test]
    fn one_exec_that_is_seen_half_done_counts_once() {
        assert_eq!(count(&[("a", 1), ("b", 1), ("b", 2), ("b", 2)]), 1);
        assert_eq!(count(&[("a", 1), ("b", 0), ("b", 2), ("b", 2)]), 1);
        assert_eq!(count(&[("a", 1), ("a", 0), ("b", 2)]), 1);
    }

    #[test]
    fn a_stack_that_is_not_shown_is_no_exec() {
        assert_eq!(count(&[("a", 1), ("a", 0), ("a", 1), ("a", 0)]), 0);
        assert_eq!(count(&[("a", 0), ("a", 1), ("a", 2)]), 1);
    }
}
