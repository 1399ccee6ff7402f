//! Kills for want of memory: by whom the counter of a cgroup is accounted for.

use std::time::{Duration, Instant};

use capture::{MemoryCgroup, MemoryRoom};
use model::{Circumstance, Ending, Holder, ProcessId};

use super::Ends;

/// SIGKILL, by which the kernel ends who is to give memory back.
pub(super) const KILL: i32 = 9;
/// So long the counter is asked again: where we are in the cgroup that has run out, files cannot be read until somebody has gone.
const DOUBT: Duration = Duration::from_secs(2);

/// So many are asked about again at a time.
const MOST_SUSPECTS: usize = 1024;

/// One that died of SIGKILL, or may have, for which no kill has been counted up to now.
#[derive(Clone, Debug)]
pub(super) struct Suspect {
    cgroup: MemoryCgroup,
    holders: Vec<Holder>,
    process: ProcessId,
    since: Instant,
}

impl Suspect {
    pub(super) fn process(&self) -> ProcessId {
        self.process
    }
}

fn is_killed(ending: Ending) -> bool {
    ending.signal() == Some(KILL)
}

impl Ends {
    /// Returns whether the kernel killed it for want of memory, as far as its cgroup has counted one more. It is still to be among the
    /// living. Where that, or how it ended, may be known later, it is asked again.
    pub(super) fn out_of_memory(
        &self,
        process: ProcessId,
        ending: Ending,
        is_final: bool,
    ) -> Option<Circumstance> {
        if is_final && !is_killed(ending) {
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
        let found = is_killed(ending).then(|| self.judge(&suspect)).flatten();
        let suspects = &mut self.lock().suspects;
        if found.is_none() && suspects.len() < MOST_SUSPECTS {
            suspects.push(suspect);
        }
        found
    }

    /// Asks again about those of whom it was not known.
    pub(super) fn look_for_kills_again(&self) {
        // Of whom somebody tells at this moment there is no obituary yet.
        let _telling = self.telling();
        let suspects = std::mem::take(&mut self.lock().suspects);
        for mut suspect in suspects {
            let process = suspect.process;
            let (is_awaited, ending) = {
                let written = &self.lock().written;
                (written.awaits(process), written.ending_of(process))
            };
            if is_awaited {
                suspect.since = Instant::now();
                self.lock().suspects.push(suspect);
            } else if ending.is_some_and(is_killed) {
                match self.judge(&suspect) {
                    Some(found) => self.lock().written.add_to(process, &found),
                    None if suspect.since.elapsed() < DOUBT => self.lock().suspects.push(suspect),
                    None => {}
                }
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
