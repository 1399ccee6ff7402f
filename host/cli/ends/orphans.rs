//! Orphans of the task that come to us and end: we are told of each while it is still a zombie, so that its status is known on every
//! kernel, and who was never seen is counted.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use model::Ending;

use super::{Ends, Shared};
use crate::fault;

/// What is told when a child of ours has ended. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orphans(Arc<Mutex<Account>>);

#[derive(Debug)]
enum Account {
    /// Nobody keeps one yet; these have ended.
    Early(Vec<i32>),
    Kept(Weak<Shared>),
}

impl Default for Account {
    fn default() -> Self {
        Self::Early(Vec::new())
    }
}

impl Orphans {
    /// Notes that the child `pid` has ended; it is to be a zombie until this returns.
    pub(crate) fn ended(&self, pid: i32, ending: Ending) {
        fault::provoke("supervise");
        let shared = {
            let mut account = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *account {
                Account::Early(pids) => {
                    pids.push(pid);
                    None
                }
                Account::Kept(shared) => shared.upgrade(),
            }
        };
        if let Some(shared) = shared {
            Ends(shared).orphan_ended(pid, ending);
        }
    }
}

impl Ends {
    /// Is told of orphans from now on; those that have ended before are counted.
    pub(crate) fn take_orphans(&self, orphans: &Orphans) {
        let mut account = orphans.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = Account::Kept(Arc::downgrade(&self.0));
        if let Account::Early(pids) = std::mem::replace(&mut *account, kept) {
            self.lock().count_orphans(pids.len() as u64);
            self.0.between.leave_out(pids);
        }
    }

    fn orphan_ended(&self, pid: i32, ending: Ending) {
        let at = Instant::now();
        let machine = &self.0.machine;
        // A helper is forgotten only after it was reaped, so that what is still there then and unknown is none. Who is gone was
        // waited for by somebody else, which is done to helpers alone.
        if machine.helpers().contains(pid) {
            return;
        }
        let Ok(process) = machine.identify(pid) else {
            return;
        };
        if self.lock().is_new(process) {
            self.lock().count_orphan(process);
        } else {
            self.told(process, at, true, |_| ending);
        }
    }
}
