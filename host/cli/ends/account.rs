//! The account of who lives and how the others ended. Pure: who asks the machine is elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::{Duration, Instant};

use capture::{Found, MemoryCgroup};
use model::{
    Circumstance, Ending, Filesystem, Holder, LastCpu, LastMemory, Obituary, ProcessId, Sample,
    Snapshot, Timestamp, Unseen,
};

use super::cgroups::Cgroups;
use super::circumstances::circumstances;
use super::dead::Dead;
use super::last_seen::{self, LastSeen};
use super::out_of_memory::Suspect;
use super::written::Written;

/// So long after it was first seen a process may be moved to a cgroup of its own at any moment.
const YOUTH: Duration = Duration::from_secs(5);
/// Who is there for so long is no passer-by.
const STAYS: Duration = Duration::from_secs(1);
/// Of so many a second the cgroup is read again.
const IN_TURN: usize = 16;
/// Before all processes.
const FIRST: ProcessId = ProcessId {
    pid: 0,
    start_time_ticks: 0,
};
/// Who held most is told of so many.
const MOST_HOLDERS: usize = 3;

#[derive(Debug)]
pub(super) struct Account {
    began: (Instant, Timestamp),
    pub(super) cgroups: Cgroups,
    dead: Dead,
    /// As last seen.
    filesystem: Filesystem,
    living: BTreeMap<ProcessId, Living>,
    /// When processes were last looked for.
    looked: Option<Instant>,
    root: ProcessId,
    root_order: Option<u64>,
    pub(super) suspects: Vec<Suspect>,
    /// Whose cgroup was read last.
    turn: ProcessId,
    unseen: Unseen,
    pub(super) written: Written,
}

#[derive(Debug, Default)]
struct Living {
    cgroup: Option<MemoryCgroup>,
    is_unheld: bool,
    last: LastSeen,
    /// When it was first seen by a look between snapshots.
    since: Option<Instant>,
}

/// What was told of an end.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) at: Instant,
    pub(super) circumstance: Option<Circumstance>,
    pub(super) cpu: Option<LastCpu>,
    pub(super) ended_at: Timestamp,
    pub(super) ending: Ending,
    /// Whether nobody will know more of `ending` later.
    pub(super) is_final: bool,
    /// Whether it was found out by looking, some time after the end.
    pub(super) is_late: bool,
    /// `comm` at its end; absent where that was too late.
    pub(super) name: Option<String>,
    pub(super) process: ProcessId,
}

impl Account {
    pub(super) fn new(root: ProcessId, began: Instant, now: Timestamp) -> Self {
        Self {
            began: (began, now),
            cgroups: Cgroups::default(),
            dead: Dead::default(),
            filesystem: Filesystem::default(),
            living: BTreeMap::from([(root, Living::default())]),
            looked: None,
            root,
            root_order: None,
            suspects: Vec::new(),
            turn: FIRST,
            unseen: Unseen::default(),
            written: Written::default(),
        }
    }

    /// Notes what a snapshot says; returns the processes that were not known.
    pub(super) fn seen(&mut self, snapshot: &Snapshot) -> Vec<ProcessId> {
        self.filesystem = snapshot.filesystem.clone();
        let mut new = Vec::new();
        for (process, last) in last_seen::of(snapshot) {
            if self.dead.contains(process) {
                self.written.complete(process, &last);
            } else if let Some(living) = self.living.get_mut(&process) {
                living.last.update(last);
            } else {
                let living = Living {
                    last,
                    ..Living::default()
                };
                self.living.insert(process, living);
                new.push(process);
            }
        }
        new
    }

    /// Notes processes that were found; returns those that were not known.
    pub(super) fn found(
        &mut self,
        found: Vec<Found>,
        now: Timestamp,
        looked: Instant,
    ) -> Vec<ProcessId> {
        self.looked = Some(looked);
        let mut new = Vec::new();
        for Found {
            is_zombie,
            name,
            ppid,
            process,
        } in found
        {
            if self.dead.contains(process) {
                continue;
            }
            let is_new = !self.living.contains_key(&process);
            let living = self.living.entry(process).or_default();
            living.since.get_or_insert(looked);
            let last = &mut living.last;
            last.ppid = ppid;
            last.is_called(&name);
            if !is_zombie {
                last.alive_at = Some(now);
            }
            new.extend(is_new.then_some(process));
        }
        new
    }

    /// Notes what a sample taken at `taken` says; returns the processes that were not known.
    pub(super) fn sampled(&mut self, sample: &Sample, taken: Instant) -> Vec<ProcessId> {
        let found = sample.processes.iter().map(|process| Found {
            is_zombie: matches!(process.state, 'Z' | 'X'),
            name: process.name.clone(),
            ppid: process.ppid,
            process: process.identity,
        });
        let new = self.found(found.collect(), sample.at, taken);
        for process in &sample.processes {
            let living = self.living.get_mut(&process.identity);
            // Who is about to end has given its memory back already.
            let rss_bytes = process.rss_bytes.filter(|it| *it > 0);
            if let Some((living, rss_bytes)) = living.zip(rss_bytes) {
                let known = living.last.memory.and_then(|it| it.peak_rss_bytes);
                // Not every sample reads the peak, and it never falls.
                let peak = process
                    .peak_rss_bytes
                    .or(known.map(|known| known.max(rss_bytes)));
                living.last.memory = Some(LastMemory {
                    at: sample.at,
                    peak_rss_bytes: peak,
                    rss_bytes,
                });
            }
        }
        new
    }

    /// Whether there is one whose end was not noted.
    pub(super) fn knows_the_living(&self) -> bool {
        !self.living.is_empty()
    }

    pub(super) fn is_living(&self, process: ProcessId) -> bool {
        self.living.contains_key(&process)
    }

    /// Whether nothing was ever seen of `process`.
    pub(super) fn is_new(&self, process: ProcessId) -> bool {
        !self.is_living(process) && !self.dead.contains(process)
    }

    /// Whether somebody has seen a process of this PID that began between two ticks since boot.
    pub(super) fn knows(&self, pid: i32, first: u64, last: u64) -> bool {
        let of = |start_time_ticks| ProcessId {
            pid,
            start_time_ticks,
        };
        let range = of(first)..=of(last);
        let mut living = self.living.range(range.clone());
        living.next().is_some() || self.dead.has_any_in(range)
    }

    /// Counts orphans that ended before anybody had looked at them.
    pub(super) fn count_orphans(&mut self, count: u64) {
        self.unseen.orphans += count;
    }

    /// Counts one of them, which is new to nobody from now on.
    pub(super) fn count_orphan(&mut self, process: ProcessId) {
        self.count_orphans(1);
        self.dead.bury(process);
    }

    /// Whether somebody who has been there for a while was never looked at as what it is now.
    pub(super) fn is_anybody_strange(&self, now: Instant) -> bool {
        let mut living = self.living.values();
        living.any(|living| {
            let since = living.since;
            let is_old = since.is_some_and(|since| now.duration_since(since) >= STAYS);
            is_old && !living.last.is_looked_at
        })
    }

    /// When processes were last looked for.
    pub(super) fn looked(&self) -> Option<Instant> {
        self.looked
    }

    /// Returns those whose cgroup is to be read again: the ones that came lately, because it is at first that a process is moved, and
    /// some of the others in turn.
    pub(super) fn may_have_moved(&mut self, now: Instant) -> Vec<ProcessId> {
        let is_new = |living: &Living| {
            living
                .since
                .is_some_and(|since| now.duration_since(since) < YOUTH)
        };
        let young = self.living.iter().filter(|(_, living)| is_new(living));
        let mut chosen: Vec<ProcessId> = young.map(|(&id, _)| id).take(IN_TURN).collect();
        let after = (Bound::Excluded(self.turn), Bound::Unbounded);
        let next: Vec<ProcessId> = self
            .living
            .range(after)
            .map(|(&id, _)| id)
            .take(IN_TURN)
            .collect();
        self.turn = next.last().copied().unwrap_or(FIRST);
        chosen.extend(next);
        chosen
    }

    /// Notes which cgroup counts the memory of `process`.
    pub(super) fn is_in(&mut self, process: ProcessId, cgroup: MemoryCgroup) {
        self.cgroups.note(&cgroup);
        if let Some(living) = self.living.get_mut(&process) {
            living.cgroup = Some(cgroup);
        }
    }

    /// Notes that nobody will tell of the end of `process`.
    pub(super) fn refused(&mut self, process: ProcessId) {
        if let Some(living) = self.living.get_mut(&process) {
            self.unseen.unheld += u64::from(!living.is_unheld);
            living.is_unheld = true;
        }
    }

    /// Returns those of whose end nobody will tell.
    pub(super) fn unheld(&self) -> Vec<ProcessId> {
        let unheld = self.living.iter().filter(|(_, living)| living.is_unheld);
        unheld.map(|(&process, _)| process).collect()
    }

    pub(super) fn cgroup_of(&self, process: ProcessId) -> Option<MemoryCgroup> {
        self.living.get(&process)?.cgroup.clone()
    }

    /// Counts the kills of `cgroup` that no obituary accounts for.
    pub(super) fn count_unseen_kills(&mut self, cgroup: &MemoryCgroup, kills: u64) {
        self.unseen.out_of_memory += self.cgroups.unaccounted(cgroup, kills);
    }

    /// Returns who in `cgroup` held the most memory when that was last read, largest first.
    pub(super) fn holders(&self, cgroup: &MemoryCgroup) -> Vec<Holder> {
        let inside = self.living.iter();
        let inside = inside.filter(|(_, living)| living.cgroup.as_ref() == Some(cgroup));
        let mut holders: Vec<Holder> = inside
            .filter_map(|(&process, living)| {
                Some(Holder {
                    name: living.last.name.clone(),
                    process,
                    rank: living.last.rank,
                    rss_bytes: living.last.memory?.rss_bytes,
                })
            })
            .collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.rss_bytes));
        holders.truncate(MOST_HOLDERS);
        holders
    }

    /// Writes the obituary of a process that was known to live; of any other nothing.
    pub(super) fn died(&mut self, told: Told) {
        let Some(mut living) = self.living.remove(&told.process) else {
            return;
        };
        if let Some(name) = &told.name {
            living.last.is_called(name);
        }
        self.dead.bury(told.process);
        let mut around = circumstances(told.ending, living.last.descriptors, &self.filesystem);
        around.splice(0..0, told.circumstance);
        let elapsed = told.at.saturating_duration_since(self.began.0);
        let mut obituary = Obituary {
            circumstances: around,
            cpu: told.cpu,
            elapsed_ms: (elapsed.as_secs_f64() * 1e6).round() / 1e3,
            ended_at: told.ended_at,
            ended_after: living.last.alive_at.filter(|_| told.is_late),
            ending: told.ending,
            last_snapshot: None,
            memory: None,
            name: String::new(),
            order: 0,
            ppid: 0,
            process: told.process,
            rank: None,
            role: None,
            stack: None,
            stack_at: None,
        };
        living.last.put_into(&mut obituary);
        let (order, is_kept) = self.written.add(obituary);
        if !told.is_final {
            self.written.wait_for(told.process);
        }
        if told.process == self.root {
            self.root_order = Some(order);
        }
        self.unseen.dropped += u64::from(!is_kept);
    }

    /// Returns the obituaries that are to be written now, if there are any.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<Obituary> {
        let in_doubt: BTreeSet<ProcessId> = self.suspects.iter().map(Suspect::process).collect();
        self.written.due(now, &in_doubt)
    }

    pub(super) fn root(&self) -> ProcessId {
        self.root
    }

    /// The place of the main process in the order of the ends, once it has ended.
    pub(super) fn root_order(&self) -> Option<u64> {
        self.root_order
    }

    pub(super) fn unseen(&self) -> Unseen {
        self.unseen.clone()
    }
}
