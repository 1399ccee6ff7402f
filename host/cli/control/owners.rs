//! Whose stages are: the processes that speak of them, and their ends, which end what they left open.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use capture::{Machine, StackSettings, StackSource};
use model::{Ending, ProcessId};
use monitor::{Owner, StageLine};
use rustix::event::{EventfdFlags, eventfd};
use supervise::Hold;

use super::stages::SharedStages;
use crate::ends::{Ends, Listener};

/// So many owners are remembered, and so many of them held.
const OWNERS: usize = 1024;
const HELD: usize = 256;
/// How long the end waits for ends of processes that have happened already.
const PATIENCE: Duration = Duration::from_millis(200);

/// Takes what lines say of stages.
#[derive(Debug)]
pub(super) struct Owners {
    pub(super) stages: SharedStages,
    /// Rings when a process has ended.
    bell: Arc<OwnedFd>,
    dead: Receiver<(ProcessId, Ending)>,
    /// Who holds them.
    ends: Ends,
    /// Owners that had ended when they were to be held: the rest of what they said comes first.
    gone: Vec<Owner>,
    held: BTreeSet<ProcessId>,
    known: BTreeMap<i32, Owner>,
    machine: Machine,
    /// Owners whose end nobody will tell: they are looked for when a connection ends.
    unheld: BTreeSet<Owner>,
}

impl Owners {
    pub(super) fn new(stages: SharedStages, ends: Ends) -> io::Result<Self> {
        let (told, dead) = channel();
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let bell = Arc::new(bell);
        ends.listen(Listener::new(told, Arc::clone(&bell)));
        Ok(Self {
            stages,
            bell,
            dead,
            ends,
            gone: Vec::new(),
            held: BTreeSet::new(),
            known: BTreeMap::new(),
            machine: machine(),
            unheld: BTreeSet::new(),
        })
    }

    /// Returns what is ready when a process has ended.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Takes a line of the process `writer`.
    pub(super) fn take(&mut self, line: StageLine, writer: i32) {
        let now = self.stages.moment();
        match line {
            StageLine::Begin(begin) => {
                let owner = self.owner(begin.pid.unwrap_or(writer));
                self.stages.with(|stages| stages.begin(owner, begin, now));
            }
            StageLine::End(end) => {
                let owner = self.owner(end.pid.unwrap_or(writer));
                self.stages.with(|stages| {
                    stages.end(owner, &end, now);
                });
            }
        }
    }

    /// Ends the stages of the processes that have ended by now. Everything that they said must have been taken.
    pub(super) fn bury(&mut self) {
        _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        while let Ok((process, ending)) = self.dead.try_recv() {
            self.held.remove(&process);
            let owner = Owner {
                pid: process.pid,
                process: Some(process),
            };
            self.end(owner, ending);
        }
        for owner in std::mem::take(&mut self.gone) {
            self.end(owner, Ending::Unknown);
        }
    }

    /// Looks for owners that nobody holds; their ends are not told.
    pub(super) fn look_for_unheld(&mut self) {
        for owner in self.unheld.clone() {
            if self.identify(owner.pid) != owner.process {
                self.unheld.remove(&owner);
                self.end(owner, Ending::Unknown);
            }
        }
    }

    /// The watching ends: all that has happened by now has been told, and what is open ends with it.
    pub(super) fn close(&mut self) {
        self.ends.settle(PATIENCE);
        self.bury();
        let now = self.stages.moment();
        self.stages.with(|stages| stages.watching_ended(now));
    }

    fn end(&mut self, owner: Owner, ending: Ending) {
        let outcome = (ending != Ending::Exited(0)).then(|| ending.to_string());
        let now = self.stages.moment();
        self.stages
            .with(|stages| stages.process_ended(owner, outcome.as_deref(), now));
        if self.known.get(&owner.pid) == Some(&owner) {
            self.known.remove(&owner.pid);
        }
    }

    /// Returns who has `pid`, and holds it.
    fn owner(&mut self, pid: i32) -> Owner {
        if let Some(owner) = self.known.get(&pid) {
            return *owner;
        }
        let process = self.identify(pid);
        let owner = Owner { pid, process };
        if self.known.len() >= OWNERS {
            let known = &mut self.known;
            self.stages
                .with(|stages| known.retain(|_, owner| stages.has_open(*owner)));
        }
        self.known.insert(pid, owner);
        match process.map_or(Hold::Gone, |process| self.hold(process)) {
            Hold::Held => {}
            Hold::Gone => {
                self.gone.push(owner);
                _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
            }
            Hold::Refused => _ = self.unheld.insert(owner),
        }
        owner
    }

    fn hold(&mut self, process: ProcessId) -> Hold {
        if self.held.len() >= HELD {
            return Hold::Refused;
        }
        let machine = &self.machine;
        let is_it = || machine.identify(process.pid).ok() == Some(process);
        let hold = self.ends.ask_for(process, is_it);
        if hold == Hold::Held {
            self.held.insert(process);
        }
        hold
    }

    fn identify(&self, pid: i32) -> Option<ProcessId> {
        self.machine.identify(pid).ok()
    }
}

/// Returns the machine as our own PID namespace sees it: who writes is told as a PID there, whatever `--proc-root` says.
fn machine() -> Machine {
    Machine::local(StackSettings {
        source: StackSource::Off,
        timeout: Duration::ZERO,
        nonblocking: true,
        max_parallel: 1,
    })
}
