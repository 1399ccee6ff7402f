//! How every process of the task ended: each that was seen is held by a pidfd, and what was last known of it becomes its obituary.
//!
//! Two threads beside the collector: one of `supervise` that sleeps until a process ends, and [`watch`], which looks for new
//! processes and at how much memory is left.

mod account;
mod circumstances;
mod last_seen;
mod leftovers;

mod pressure;
mod stored;
mod watch;
mod words;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use capture::{Found, Machine, MemoryCgroup, Scope};
use model::{Circumstance, Ending, ObituarySegment, ProcessId, SCHEMA_VERSION, Sample, Snapshot};
use rustix::process::{Resource, getrlimit};
use store::{RecordKind, Records};
use supervise::{Death, Deaths, Hold};
use tracing::warn;

use crate::clock::Clock;
use account::{Account, Told};

use words::{known_end, words};

pub(crate) use stored::StoredEnds;

/// So many processes are held at a time at most, and half of the descriptors that we may have.
const MOST_HELD: u64 = 4096;
/// How long the end waits for ends that have happened to be told.
const SETTLE: Duration = Duration::from_millis(500);
/// SIGKILL, by which the kernel ends who is to give memory back.
const KILL: i32 = 9;

/// What is known of the ends. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Ends(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    account: Mutex<Account>,
    clock: Clock,
    /// Absent where no thread or no descriptor could be had: then ends are found out by looking.
    deaths: Option<Deaths>,
    /// Whether all is told that will be.
    is_closed: AtomicBool,
    /// Who looks here does not wait for a capture.
    machine: Arc<Machine>,
    /// Where obituaries are kept; absent until the store is open.
    records: OnceLock<Records>,
    /// Who belongs to the task, as last found.
    scope: Mutex<Scope>,
}

impl Ends {
    /// Begins to hold the processes of `scope`. Trouble is a warning: the task goes on.
    pub(crate) fn begin(machine: Arc<Machine>, scope: Scope, clock: Clock) -> Self {
        let root = scope.root();
        let account = Account::new(root, Instant::now(), clock.now());
        let ends = Self(Arc::new_cyclic(|shared: &Weak<Shared>| {
            let shared = Weak::clone(shared);
            let on_death = move |death: &Death<'_>| {
                // Until the end of `new_cyclic` there is nobody to die.
                if let Some(shared) = shared.upgrade() {
                    Self(shared).died(death);
                }
            };
            let deaths = Deaths::watch(most_held(), on_death)
                .inspect_err(|error| {
                    warn!(%error, "How processes of the task end is found out by looking alone.");
                })
                .ok();
            Shared {
                account: Mutex::new(account),
                clock,
                deaths,
                is_closed: AtomicBool::new(false),
                machine,
                records: OnceLock::new(),
                scope: Mutex::new(scope),
            }
        }));
        ends.hold(root);
        ends
    }

    /// Looks for new processes and at the memory that is left, until the task has ended; `ask` is called when a look at
    /// the task is worth more now than later.
    pub(crate) fn watch(&self, ask: impl Fn() + Send + 'static) {
        watch::start(self, ask);
    }

    /// Keeps obituaries with `records` from now on, those that have come before as well.
    pub(crate) fn keep_with(&self, records: Records) {
        _ = self.0.records.set(records);
    }

    /// Notes what a finished snapshot says of each process.
    pub(crate) fn seen(&self, snapshot: &Snapshot) {
        let new = self.lock().seen(snapshot);
        for process in new {
            self.hold(process);
        }
    }

    /// Notes what a sample says of each process.
    pub(crate) fn sampled(&self, sample: &Sample) {
        let now = Instant::now();
        let new = self.lock().sampled(sample, now);
        for process in new {
            self.hold(process);
        }
        self.look_after_unheld();
    }

    /// Notes processes that were found by discovery alone.
    fn found(&self, found: Vec<Found>) {
        let now = self.0.clock.now();
        let new = self.lock().found(found, now, Instant::now());
        for process in new {
            self.hold(process);
        }
    }

    fn hold(&self, process: ProcessId) {
        let Shared {
            deaths, machine, ..
        } = &*self.0;
        let cgroup = MemoryCgroup::of(machine, process);
        if let Some(cgroup) = cgroup {
            self.lock().is_in(process, cgroup);
        }
        let hold = deaths.as_ref().map_or(Hold::Refused, |deaths| {
            deaths.hold(process, || capture::is_there(machine, process))
        });
        match hold {
            Hold::Held => {}
            Hold::Refused => self.lock().refused(process),
            Hold::Gone => self.vanished(process),
        }
    }

    /// Writes the obituary of a process whose end was told just now.
    fn died(&self, death: &Death<'_>) {
        // First what lasts only until its parent has taken it.
        let remains = capture::remains(&self.0.machine, death.process);
        let mut ending = remains.as_ref().map_or(Ending::Unknown, |it| it.ending);
        if ending == Ending::Unknown {
            ending = death.ending();
        }
        let now = self.0.clock.now();
        let ended_at = now.before(death.at.elapsed());
        let circumstance = self.out_of_memory(death.process, ending);
        self.lock().died(Told {
            circumstance,
            cpu: remains.as_ref().map(|remains| remains.cpu),
            ended_at,
            ending,
            at: death.at,
            process: death.process,
            is_late: false,
            name: remains.map(|remains| remains.name),
        });
    }

    /// Writes the obituary of a process that is not there any more, and of whose end nobody told.
    fn vanished(&self, process: ProcessId) {
        self.lock().died(Told {
            circumstance: None,
            cpu: None,
            ended_at: self.0.clock.now(),
            ending: Ending::Unknown,
            at: Instant::now(),
            process,
            is_late: true,
            name: None,
        });
    }

    /// Returns whether the kernel killed it for want of memory, as far as its cgroup has counted one more.
    fn out_of_memory(&self, process: ProcessId, ending: Ending) -> Option<Circumstance> {
        if ending.signal() != Some(KILL) {
            return None;
        }
        let cgroup = self.lock().cgroup_of(process)?;
        let kills = cgroup.kills()?;
        if !self.lock().is_killed_for_memory(&cgroup, kills) {
            return None;
        }
        let room = cgroup.tightest().filter(capture::MemoryRoom::ran_out);
        let holders = self.lock().holders(&cgroup);
        Some(Circumstance::OutOfMemory {
            holders,
            limit_bytes: room.as_ref().map(|room| room.limit_bytes),
            usage_bytes: room.as_ref().map(capture::MemoryRoom::most),
            cgroup: room.and_then(|room| room.path),
        })
    }

    /// Writes the obituaries of those that ended unheld.
    fn look_after_unheld(&self) {
        let unheld = self.lock().unheld();
        for process in unheld {
            if !capture::is_there(&self.0.machine, process) {
                self.vanished(process);
            }
        }
    }

    /// Waits shortly for ends that have happened to be told, and keeps all that there is. To be called once, before the store is
    /// closed.
    pub(crate) fn close(&self) {
        if let Some(deaths) = &self.0.deaths {
            deaths.settle(SETTLE);
        }
        self.look_after_unheld();
        let cgroups = self.lock().cgroups();
        for cgroup in cgroups {
            if let Some(kills) = cgroup.kills() {
                self.lock().count_unseen_kills(&cgroup, kills);
            }
        }
        self.0.is_closed.store(true, Ordering::Relaxed);
        self.write();
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed.load(Ordering::Relaxed)
    }

    /// Returns what there is to say at the end, the main process having ended as `main`.
    pub(crate) fn words(&self, main: Ending) -> Vec<String> {
        let account = self.lock();
        let main = known_end(main, account.notable(), account.root());
        words(account.notable(), account.root(), main, account.unseen())
    }

    /// Keeps the obituaries that wait, if one of them is not to wait any longer.
    fn write_some(&self) {
        let is_due = self.lock().is_due(self.0.clock.now());
        if is_due {
            self.write();
        }
    }

    fn write(&self) {
        let Some(records) = self.0.records.get() else {
            return;
        };
        let (obituaries, unseen) = {
            let mut account = self.lock();
            (account.take(), account.unseen())
        };
        let Some(first) = obituaries.first() else {
            return;
        };
        let at = first.ended_at;
        let segment = ObituarySegment {
            obituaries,
            schema_version: SCHEMA_VERSION.to_owned(),
            unseen,
        };
        // What is lost is counted there, and said.
        records.keep(RecordKind::Obituaries, at, &segment);
    }

    fn scope(&self) -> MutexGuard<'_, Scope> {
        self.0.scope.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Account> {
        self.0
            .account
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many processes may be held: the rest of the descriptors is for looking.
fn most_held() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from((limit / 2).min(MOST_HELD)).unwrap_or(usize::MAX)
}
