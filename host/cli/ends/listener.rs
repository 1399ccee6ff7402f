//! Who else wants to be told of an end: processes are held once, whoever asks.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{Ending, ProcessId};
use supervise::Hold;

use super::Ends;

/// Where ends are told that were asked for.
#[derive(Debug)]
pub(crate) struct Listener {
    asked: Mutex<BTreeSet<ProcessId>>,
    /// Rings after each.
    bell: Arc<OwnedFd>,
    told: Sender<(ProcessId, Ending)>,
}

impl Listener {
    /// Returns one that sends to `told` and then makes `bell`, an eventfd, readable.
    pub(crate) fn new(told: Sender<(ProcessId, Ending)>, bell: Arc<OwnedFd>) -> Self {
        Self {
            asked: Mutex::default(),
            bell,
            told,
        }
    }

    pub(super) fn is_asked(&self, process: ProcessId) -> bool {
        self.asked().contains(&process)
    }

    pub(super) fn tell(&self, process: ProcessId, ending: Ending) {
        if self.asked().remove(&process) {
            _ = self.told.send((process, ending));
            _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        }
    }

    fn asked(&self) -> MutexGuard<'_, BTreeSet<ProcessId>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ends {
    /// Tells `listener` the ends that are asked for. There is one.
    pub(crate) fn listen(&self, listener: Listener) {
        _ = self.0.listener.set(listener);
    }

    /// Asks for the end of `process`, whoever it is; `is_it` says whether its PID still is that process.
    pub(crate) fn ask_for(&self, process: ProcessId, is_it: impl FnOnce() -> bool) -> Hold {
        let Some((deaths, listener)) = self.0.deaths.as_ref().zip(self.0.listener.get()) else {
            return Hold::Refused;
        };
        listener.asked().insert(process);
        let hold = deaths.hold(process, is_it);
        if hold != Hold::Held {
            listener.asked().remove(&process);
        }
        hold
    }
}
