//! Whose stages are: the processes that speak of them, and their ends, which end what they left open.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use capture::{Machine, StackSettings, StackSource};
use model::{Ending, ProcessId};
use monitor::{Owner, StageLine};
use rustix::event::{EventfdFlags, eventfd};
use supervise::{Death, Deaths, Hold};
use tracing::warn;

use super::stages::SharedStages;

/// So many owners are remembered, and so many of them held.
const OWNERS: usize = 1024;
const HELD: usize = 256;
/// How long the end waits for ends of processes that have happened already.
const PATIENCE: Duration = Duration::from_millis(200);

/// That a process has ended, and how.
type Told = (Owner, Ending);

/// Takes what lines say of stages.
#[derive(Debug)]
pub(super) struct Owners {
    pub(super) stages: SharedStages,
    /// Rings when a process has ended.
    bell: Arc<OwnedFd>,
    dead: Receiver<Told>,
    deaths: Option<Deaths>,
    /// Where ends are told.
    ends: Sender<Told>,
    known: BTreeMap<i32, Owner>,
    machine: Machine,
    /// Owners whose end nobody will tell: they are looked for when a connection ends.
    unheld: BTreeSet<Owner>,
}

impl Owners {
    pub(super) fn new(stages: SharedStages) -> io::Result<Self> {
        let (ends, dead) = channel();
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            stages,
            bell: Arc::new(bell),
            dead,
            deaths: None,
            ends,
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
        while let Ok((owner, ending)) = self.dead.try_recv() {
            self.end(owner, ending);
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
        if let Some(deaths) = &self.deaths {
            deaths.settle(PATIENCE);
        }
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
            // The rest of what it said comes first.
            Hold::Gone => tell(&self.ends, &self.bell, owner, Ending::Unknown),
            Hold::Refused => _ = self.unheld.insert(owner),
        }
        owner
    }

    fn hold(&mut self, process: ProcessId) -> Hold {
        if self.deaths.is_none() {
            let (bell, dead) = (Arc::clone(&self.bell), self.ends.clone());
            let machine = machine();
            let started = Deaths::watch(HELD, move |death| {
                let owner = Owner {
                    pid: death.process.pid,
                    process: Some(death.process),
                };
                tell(&dead, &bell, owner, ending(death, &machine));
            });
            self.deaths = started
                .inspect_err(|error| warn!(%error, "Stages do not end with their processes."))
                .ok();
        }
        let machine = &self.machine;
        let is_it = || machine.identify(process.pid).ok() == Some(process);
        self.deaths
            .as_ref()
            .map_or(Hold::Refused, |deaths| deaths.hold(process, is_it))
    }

    fn identify(&self, pid: i32) -> Option<ProcessId> {
        self.machine.identify(pid).ok()
    }
}

/// Notes an end; the stages of `owner` end with it once all that was said before is taken.
fn tell(dead: &Sender<Told>, bell: &OwnedFd, owner: Owner, ending: Ending) {
    _ = dead.send((owner, ending));
    _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

/// How a process ended: as a zombie it says so itself, later the kernel may.
fn ending(death: &Death<'_>, machine: &Machine) -> Ending {
    let remains = capture::remains(machine, death.process).map(|remains| remains.ending);
    remains
        .filter(|ending| *ending != Ending::Unknown)
        .unwrap_or_else(|| death.ending())
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
