//! How often each process was seen to have become another program.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
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
        let is_shown = seen.start_stack != 0 && start_stack != 0;
        if seen.exe != exe || (is_shown && seen.start_stack != start_stack) {
            seen.count = seen.count.saturating_add(1);
            exe.clone_into(&mut seen.exe);
        }
        if start_stack != 0 {
            seen.start_stack = start_stack;
        }
        Some(seen.count)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ProcessId, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
