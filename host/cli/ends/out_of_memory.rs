//! Kills for want of memory: by whom the counter of a cgroup is accounted for.

use std::time::{Duration, Instant};

use capture::{MemoryCgroup, MemoryRoom};
use model::{Circumstance, Ending, Holder, ProcessId};

use super::Ends;

/// SIGKILL, by which the kernel ends who is to give memory back.
pub(super) const KILL: i32 = 9;
/// So long the counter is asked again: where we are in the cgroup that has run out, files cannot be read until somebody has gone.
const DOUBT: Duration = Duration::from_secs(2);

/// One that died of SIGKILL, for which no kill has been counted up to now.
#[derive(Clone, Debug)]
pub(super) struct Suspect {
    cgroup: MemoryCgroup,
    holders: Vec<Holder>,
    process: ProcessId,
    since: Instant,
}

impl Ends {
    /// Returns whether the kernel killed it for want of memory, as far as its cgroup has counted one more. It is still to be among the
    /// living.
    pub(super) fn out_of_memory(&self, process: ProcessId, ending: Ending) -> Option<Circumstance> {
        if ending.signal() != Some(KILL) {
            return None;
        }
        let suspect = {
            let account = self.lock();
            let cgroup = account.cgroup_of(process)?;
            Suspect {
                holders: account.holders(&cgroup),
                cgroup,
                process,
                since: Instant::now(),
            }
        };
        let found = self.judge(&suspect);
        if found.is_none() {
            self.lock().suspects.push(suspect);
        }
        found
    }

    /// Asks again about those of whom it was not known.
    pub(super) fn look_for_kills_again(&self) {
        let suspects = std::mem::take(&mut self.lock().suspects);
        for suspect in suspects {
            match self.judge(&suspect) {
                Some(circumstance) => self.lock().written.add_to(suspect.process, &circumstance),
                None if suspect.since.elapsed() < DOUBT => self.lock().suspects.push(suspect),
                None => {}
            }
        }
    }

    /// Counts the kills that no obituary accounts for.
    pub(super) fn count_unseen_kills(&self) {
        let cgroups = self.lock().cgroups.all();
        for cgroup in cgroups {
            if let Some(kills) = cgroup.kills() {
                self.lock().count_unseen_kills(&cgroup, kills);
            }
        }
    }

    fn judge(&self, suspect: &Suspect) -> Option<Circumstance> {
        let Suspect {
            cgroup, holders, ..
        } = suspect;
        let kills = cgroup.kills()?;
        let is_one = self.lock().cgroups.is_killed_for_memory(cgroup, kills);
        is_one.then(|| {
            let room = cgroup.tightest().filter(MemoryRoom::ran_out);
            Circumstance::OutOfMemory {
                holders: holders.clone(),
                limit_bytes: room.as_ref().map(|room| room.limit_bytes),
                usage_bytes: room.as_ref().map(MemoryRoom::most),
                cgroup: room.and_then(|room| room.path),
            }
        })
    }
}
