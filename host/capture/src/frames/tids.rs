//! The kernel's ids of threads and whether it has them running.
//!
//! Before 3.11 a thread state keeps only the `pthread_t`: the address of what the C library keeps of the thread, with its
//! id in it. An id that the process has no thread of is not believed.

use std::collections::HashMap;

use super::view::{View, span};
use crate::proc::reader::read_record;

/// Where `struct pthread` has the id: glibc (behind the head, whose size is the ABI's, and a list), then musl.
const PLACES: &[u64] = if cfg!(target_arch = "x86_64") {
    &[720, 48]
} else {
    &[208]
};

/// The threads of one process.
#[derive(Debug)]
pub(super) struct Tids {
    pid: i32,
    place: Option<u64>,
    /// Whether it counts its threads as we do; if not, theirs to ours.
    theirs: Option<HashMap<u64, u64>>,
}

impl Tids {
    pub(super) fn of(pid: i32) -> Self {
        let theirs = (innermost_id(pid, pid) != u64::try_from(pid).ok()).then(HashMap::new);
        Self {
            pid,
            place: None,
            theirs,
        }
    }

    /// Returns the id that the C library keeps of the thread `pthread`, as the process itself counts.
    pub(super) fn kept(&mut self, view: &mut View, pthread: u64) -> Option<u64> {
        if let Some(place) = self.place {
            return word(view, pthread, place);
        }
        let places = PLACES.iter().copied();
        let mut ids = places.filter_map(|place| Some((place, word(view, pthread, place)?)));
        let (place, id) = ids.find(|&(_, id)| self.state(id).is_some())?;
        self.place = Some(place);
        Some(id)
    }

    /// Returns our id and the state letter of the thread that the process itself knows as `id`; nothing if it has none.
    pub(super) fn state(&mut self, id: u64) -> Option<(u64, char)> {
        let Some(theirs) = &mut self.theirs else {
            return Some((id, state(self.pid, id)?));
        };
        let known = theirs.get(&id).copied();
        if let Some(ours) = known
            && innermost_id(self.pid, i32::try_from(ours).ok()?) == Some(id)
        {
            return Some((ours, state(self.pid, ours)?));
        }
        *theirs = list(self.pid);
        let ours = *theirs.get(&id)?;
        Some((ours, state(self.pid, ours)?))
    }
}

fn word(view: &mut View, pthread: u64, place: u64) -> Option<u64> {
    let at = span(pthread.checked_add(place)?, 4).ok()?.at;
    let bytes = view.bytes(at, 4).ok()?;
    Some(u32::from_le_bytes(bytes.try_into().expect("four bytes")).into())
}

/// The state letter, behind a name that may hold anything.
fn state(pid: i32, tid: u64) -> Option<char> {
    let stat = read_record(&format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(close + 2).map(|&state| char::from(state))
}

/// The id of a thread in its own PID namespace.
fn innermost_id(pid: i32, tid: i32) -> Option<u64> {
    let status = read_record(&format!("/proc/{pid}/task/{tid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // Before Linux 4.1 it was not said.
    let last = ids.and_then(|ids| ids.split_whitespace().next_back()?.parse().ok());
    last.or(u64::try_from(tid).ok())
}

fn list(pid: i32) -> HashMap<u64, u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    tasks
        .filter_map(|task| {
            let tid: i32 = task.file_name().to_str()?.parse().ok()?;
            Some((innermost_id(pid, tid)?, u64::try_from(tid).ok()?))
        })
        .collect()
}
