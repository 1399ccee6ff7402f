//! How every process of the task ended: each that was seen is held by a pidfd, and what was last known of it becomes its obituary.
//!
//! Two threads beside the collector: one of `supervise` that sleeps until a process ends, and [`watch`], which looks for new
//! processes and at how much memory is left.

mod account;
mod between;
mod cgroups;
mod circumstances;
mod dead;
mod last_seen;
mod leftovers;
mod listener;
mod orphans;
mod out_of_memory;
mod pressure;
mod stored;
#[cfg(test)]
mod tests;
mod watch;
mod words;
mod written;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use capture::{Found, Machine, MemoryCgroup, Remains, Scope};
use model::{
    Ending, Obituary, ObituarySegment, ProcessId, SCHEMA_VERSION, Sample, Snapshot, Timestamp,
    Trigger, Unseen,
};
use monitor::Ended;
use rustix::process::{Resource, getrlimit};
use store::{RecordKind, Records};
use supervise::{Death, Deaths, Hold};
use tracing::warn;

use crate::clock::Clock;
use crate::fault;
use account::{Account, Told};
use between::Between;
use words::{MainEnd, known_end, told_at, words};

pub(crate) use listener::Listener;
pub(crate) use orphans::Orphans;
pub(crate) use stored::StoredEnds;

/// So many processes are held at a time at most, and half of the descriptors that we may have.
const MOST_HELD: u64 = 4096;
/// So many of the newest ends are judged by with each snapshot.
const MOST_JUDGED: usize = 256;
/// How long the end waits for ends that have happened to be told.
const SETTLE: Duration = Duration::from_millis(500);
/// All threads of a process end within so short a time, unless its first one has ended alone.
const AT_ONCE: Duration = Duration::from_millis(500);

/// What is known of the ends. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Ends(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    account: Mutex<Account>,
    between: Between,
    clock: Clock,
    /// Absent where no thread or no descriptor could be had: then ends are found out by looking.
    deaths: Option<Deaths>,
    /// Whether all is told that will be.
    is_closed: AtomicBool,
    listener: OnceLock<Listener>,
    /// Who looks here does not wait for a capture.
    machine: Arc<Machine>,
    /// Where obituaries are kept; absent until the store is open.
    records: OnceLock<Records>,
    /// Who belongs to the task, as last found.
    scope: Mutex<Scope>,
    /// Held while an end is taken down: more than one thread may be told of it.
    telling: Mutex<()>,
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
                let shared = shared.upgrade();
                shared.is_none_or(|shared| Self(shared).died(death))
            };
            let deaths = Deaths::watch(most_held(), on_death)
                .inspect_err(|error| {
                    warn!(%error, "How processes of the task end is found out by looking alone.");
                })
                .ok();
            Shared {
                account: Mutex::new(account),
                between: Between::of(&scope),
                clock,
                deaths,
                is_closed: AtomicBool::new(false),
                listener: OnceLock::new(),
                machine,
                records: OnceLock::new(),
                scope: Mutex::new(scope),
                telling: Mutex::default(),
            }
        }));
        ends.hold(root);
        ends
    }

    /// Looks for new processes and at the memory that is left, until the task has ended; `ask` is called when a look at
    /// the task is worth more now than later.
    pub(crate) fn watch(&self, ask: impl Fn(Trigger) + Send + 'static) {
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

    /// Whether somebody is known to live. Who has ended is noted at once, or where nobody tells with the next sample.
    pub(crate) fn knows_the_living(&self) -> bool {
        self.lock().knows_the_living()
    }

    /// Looks for the processes of the task, and returns how many have not ended; a zombie has.
    pub(crate) fn look(&self) -> usize {
        // An error says that nothing is left, or that /proc is not there, which snapshots tell.
        let targets = capture::discover(&self.0.machine, &mut self.scope());
        let Ok(targets) = targets else { return 0 };
        self.found(targets.found().collect());
        targets.living()
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
        self.0.between.seen(process.pid);
        let cgroup = MemoryCgroup::of(machine, process);
        if let Some(cgroup) = cgroup {
            self.lock().is_in(process, cgroup);
        }
        // What has this PID for us may be another process.
        let deaths = deaths.as_ref().filter(|_| machine.numbers_as_for_us());
        let hold = deaths.map_or(Hold::Refused, |deaths| {
            deaths.hold(process, || capture::is_there(machine, process))
        });
        match hold {
            Hold::Held => {}
            Hold::Refused => self.lock().refused(process),
            Hold::Gone => self.vanished(process),
        }
    }

    /// Takes down the end of a process that was held; returns whether it is known how that ended.
    fn died(&self, death: &Death<'_>) -> bool {
        fault::provoke("deaths");
        let is_last = death.is_reaped;
        self.told(death.process, death.at, is_last, |remains| {
            let known = |ending| Some(ending).filter(|it| *it != Ending::Unknown);
            // First what lasts only until its parent has taken it.
            let ending = remains.and_then(|it| known(it.ending));
            let ending = ending.or_else(|| known(death.ending()));
            let ending = ending.or_else(|| {
                let (ending, ago) = self.told_by_kernel(death.process)?;
                // Else its first thread has ended before the others, perhaps in another way.
                (ago <= death.at.elapsed() + AT_ONCE).then_some(ending)
            });
            ending.unwrap_or(Ending::Unknown)
        })
    }

    /// Takes down how the main process ended, which whoever waits for it is always told. Who ended before it is told before.
    pub(crate) fn main_ended(&self, ending: Ending) {
        let at = Instant::now();
        self.settle(SETTLE);
        let root = self.lock().root();
        self.told(root, at, true, |_| ending);
    }

    /// Writes the obituary of a process whose end was told at `at`; `ending` finds out how it ended. Unless this is the last time
    /// that somebody tells of it, that may be known later. Returns whether it is, or nobody wants to know.
    fn told(
        &self,
        process: ProcessId,
        at: Instant,
        is_last: bool,
        ending: impl FnOnce(Option<&Remains>) -> Ending,
    ) -> bool {
        let _telling = self.telling();
        let listener = self.0.listener.get();
        let is_asked = listener.is_some_and(|listener| listener.is_asked(process));
        let (is_living, is_awaited) = {
            let account = self.lock();
            (account.is_living(process), account.written.awaits(process))
        };
        if !is_asked && !is_living && !is_awaited {
            return true;
        }
        let remains = capture::remains(&self.0.machine, process);
        let ending = ending(remains.as_ref());
        let is_final = is_last || ending != Ending::Unknown;
        if is_living {
            let circumstance = self.out_of_memory(process, ending, is_final);
            self.lock().died(Told {
                circumstance,
                cpu: remains.as_ref().map(|remains| remains.cpu),
                ended_at: self.0.clock.now().before(at.elapsed()),
                ending,
                at,
                process,
                is_final,
                is_late: false,
                name: remains.map(|remains| remains.name),
            });
        } else if is_awaited && is_final {
            self.lock().written.is_known(process, ending);
        }
        if let Some(listener) = listener.filter(|_| is_final) {
            listener.tell(process, ending);
        }
        is_final
    }

    /// Writes the obituary of a process that is not there any more, and of whose end nobody told who held it.
    fn vanished(&self, process: ProcessId) {
        let _telling = self.telling();
        let told = self.told_by_kernel(process);
        let (ending, ago) = told.unwrap_or((Ending::Unknown, Duration::ZERO));
        let now = Instant::now();
        let circumstance = self.out_of_memory(process, ending, true);
        self.lock().died(Told {
            circumstance,
            cpu: None,
            ended_at: self.0.clock.now().before(ago),
            ending,
            at: now.checked_sub(ago).unwrap_or(now),
            process,
            is_final: true,
            is_late: told.is_none(),
            name: None,
        });
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

    /// Waits until all ends that have happened by now have been told, for `patience` at most.
    pub(crate) fn settle(&self, patience: Duration) {
        if let Some(deaths) = &self.0.deaths {
            deaths.settle(patience);
        }
    }

    /// Waits shortly for ends that have happened to be told, and keeps all that there is. To be called once, before the store is
    /// closed.
    pub(crate) fn close(&self) {
        self.settle(SETTLE);
        self.look_after_unheld();
        self.look_for_kills_again();
        self.count_unseen_kills();
        self.count_last_births();
        self.0.is_closed.store(true, Ordering::Relaxed);
        let obituaries = self.lock().written.take();
        self.write(obituaries);
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed.load(Ordering::Relaxed)
    }

    /// Returns what there is to say at the end, the main process having ended as `main`; `at` is when the task was over, if not only now.
    /// It was told to end at the times of `told`.
    pub(crate) fn words(
        &self,
        main: Ending,
        at: Option<Timestamp>,
        told: &[Timestamp],
    ) -> Vec<String> {
        let unseen = self.unseen();
        let account = self.lock();
        let main = MainEnd {
            process: account.root(),
            ending: known_end(main, account.written.notable(), account.root()),
            order: account.root_order(),
            at,
            told_at: at.and_then(|at| told_at(told, at)),
        };
        words(account.written.notable(), main, &unseen)
    }

    /// Returns how processes have ended up to now.
    pub(crate) fn so_far(&self) -> Ended {
        let unseen = self.unseen();
        self.lock().written.so_far(unseen)
    }

    /// Returns the newest of the ends that words may be about, in their order.
    pub(crate) fn newest(&self) -> Vec<Obituary> {
        let account = self.lock();
        let notable = account.written.notable();
        notable[notable.len().saturating_sub(MOST_JUDGED)..].to_vec()
    }

    /// Returns what has no obituary, up to now.
    fn unseen(&self) -> Unseen {
        Unseen {
            between_looks: Some(self.0.between.so_far()),
            ..self.lock().unseen()
        }
    }

    /// Keeps the obituaries that wait, if one of them is not to wait any longer.
    fn write_some(&self) {
        if self.0.records.get().is_none() {
            return;
        }
        self.look_for_kills_again();
        let obituaries = self.lock().due(self.0.clock.now());
        self.write(obituaries);
    }

    fn write(&self, obituaries: Vec<Obituary>) {
        let Some((records, first)) = self.0.records.get().zip(obituaries.first()) else {
            return;
        };
        let at = first.ended_at;
        let segment = ObituarySegment {
            obituaries,
            schema_version: SCHEMA_VERSION.to_owned(),
            unseen: self.unseen(),
        };
        // What is lost is counted there, and said.
        records.keep(RecordKind::Obituaries, at, &segment);
    }

    fn scope(&self) -> MutexGuard<'_, Scope> {
        self.0.scope.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn telling(&self) -> MutexGuard<'_, ()> {
        let telling = self.0.telling.lock();
        telling.unwrap_or_else(PoisonError::into_inner)
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
