//! Each rule alone: a small job of which it holds, and the same job with what would refute it, of which it does not. And the
//! document that explains causes and rules to people names all of them.

mod limits;
mod locks;
mod over;
mod waits;

use std::collections::{BTreeMap, BTreeSet};

use model::{Obituary, Snapshot};
use taskscope_diagnose::{End, History, judge, rules};

/// Where the ends of processes lie.
pub(crate) const RECORD: &str = "obituaries/1";

/// The snapshots of a job, and how processes of it ended.
pub(crate) struct Job {
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) ends: Vec<Obituary>,
}

impl Job {
    /// The same as it is judged.
    pub(crate) fn history(&self) -> History<'_> {
        let ends = self.ends.iter().enumerate().map(|(index, obituary)| End {
            obituary,
            record: RECORD,
            index,
        });
        History {
            snapshots: self.snapshots.iter().collect(),
            ends: ends.collect(),
        }
    }
}

impl From<Vec<Snapshot>> for Job {
    fn from(snapshots: Vec<Snapshot>) -> Self {
        Self {
            snapshots,
            ends: Vec::new(),
        }
    }
}

/// A rule, its job, and the same where the rule is refuted.
type Tried = (&'static str, fn(bool) -> Job);

/// Every rule.
const ALL: [Tried; 29] = [
    ("busy-loop", waits::busy_loop),
    ("busy-loop-by-steps", waits::busy_loop_by_steps),
    ("cpu-throttled", limits::throttled),
    ("crashed", over::crashed),
    ("database-locked", locks::database),
    ("deadlock", locks::circle),
    ("deadlock-of-processes", locks::of_processes),
    ("deadlock-of-threads", locks::of_threads),
    ("disk-full", limits::disk),
    ("ended", over::ended),
    ("fd-exhausted", limits::descriptors),
    ("file-lock", locks::file_lock),
    ("gil-held", locks::interpreter),
    ("inherited-lock", locks::inherited),
    ("memory-gone", limits::memory_gone),
    ("memory-pressure", limits::memory_pressure),
    ("out-of-memory", over::out_of_memory),
    ("pipe-full", waits::pipe_full),
    ("pipe-orphaned", waits::pipe_orphaned),
    ("rank-behind", waits::rank_behind),
    ("rank-dead", over::rank_dead),
    ("shm-full", limits::shared_memory),
    ("stopped", waits::stopped),
    ("storage-stall", waits::storage),
    ("waiting-for-child", waits::child),
    ("waiting-for-input", waits::input),
    ("waiting-for-peer", waits::peer),
    ("worker-lost", over::worker_lost),
    ("zombie-unreaped", over::zombies),
];

/// The jobs of all rules.
pub(crate) fn jobs() -> Vec<Job> {
    ALL.iter().map(|(_, job)| job(false)).collect()
}

/// Whether a rule held, and why or why not.
fn tried(rule: &str, job: &Job) -> (bool, String) {
    let tried = judge(&[job.history()]).tried;
    let found = tried.into_iter().find(|it| it.rule == rule);
    let found = found.unwrap_or_else(|| panic!("{rule} was not tried"));
    (found.held, found.reason)
}

#[test]
fn each_rule_holds_of_what_it_proves_and_not_where_that_is_refuted() {
    let names: BTreeSet<&str> = ALL.iter().map(|(rule, _)| *rule).collect();
    let rules: BTreeSet<&str> = rules::all().map(|rule| rule.name).collect();
    assert_eq!(names, rules, "each rule has a test of its own");
    for (rule, job) in ALL {
        let (holds, why) = tried(rule, &job(false));
        assert!(holds, "{rule} does not hold: {why}");
        assert!(!why.is_empty(), "{rule} says nothing");
        let (holds, why) = tried(rule, &job(true));
        assert!(!holds, "{rule} holds though it is refuted: {why}");
        assert!(!why.is_empty(), "{rule} does not say why not");
    }
}

#[test]
fn each_rule_says_what_it_needs_proves_and_is_refuted_by() {
    for rule in rules::all() {
        for text in [rule.needs, rule.proves, rule.refuted_by] {
            assert!(text.len() > 10, "{}: {text}", rule.name);
        }
    }
}

/// The rows of the first table below a heading of `docs/causes.md`: the words in its first cell, and the cells after it.
fn table(heading: &str) -> BTreeMap<String, Vec<String>> {
    let document = include_str!("../../../../docs/causes.md");
    let (_, section) = document.split_once(heading).expect("the heading is there");
    let rows = section.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = rows.skip(1).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| {
        let cells = row.trim_matches('|').split(" | ").map(str::trim);
        let mut cells: Vec<String> = cells.map(str::to_owned).collect();
        (cells.remove(0).trim_matches('`').to_owned(), cells)
    });
    cells.collect()
}

/// Every cause that a verdict can have.
fn causes() -> BTreeSet<String> {
    use taskscope_diagnose::Cause;
    let all = [
        Cause::RankBehind,
        Cause::RankDead,
        Cause::Deadlock,
        Cause::InheritedLock,
        Cause::PipeFull,
        Cause::PipeOrphaned,
        Cause::WaitingForChild,
        Cause::WaitingForInput,
        Cause::WaitingForPeer,
        Cause::FileLock,
        Cause::Stopped,
        Cause::StorageStall,
        Cause::GilHeld,
        Cause::BusyLoop,
        Cause::OutOfMemory,
        Cause::MemoryPressure,
        Cause::CpuThrottled,
        Cause::ShmFull,
        Cause::DiskFull,
        Cause::FdExhausted,
        Cause::ZombieUnreaped,
        Cause::Crashed,
        Cause::Progressing,
        Cause::Finished,
        Cause::Unknown,
    ];
    // The last one: whoever adds a cause behind it has to look here.
    assert_eq!(all.len(), Cause::Unknown as usize + 1);
    all.into_iter().map(Cause::word).collect()
}

#[test]
fn the_document_explains_each_cause_with_its_fix_and_each_rule_with_its_causes() {
    let explained = table("## Causes");
    let names: BTreeSet<String> = explained.keys().cloned().collect();
    assert_eq!(names, causes());
    for (cause, cells) in &explained {
        let [seen, fix] = cells.as_slice() else {
            panic!("{cause}: {cells:?}");
        };
        assert!(!seen.is_empty() && !fix.is_empty(), "{cause}: {cells:?}");
    }
    let told = table("## Rules");
    let names: BTreeSet<&str> = told.keys().map(String::as_str).collect();
    let rules: BTreeSet<&str> = rules::all().map(|rule| rule.name).collect();
    assert_eq!(names, rules);
    for (rule, cells) in &told {
        let [says, proves] = cells.as_slice() else {
            panic!("{rule}: {cells:?}");
        };
        assert!(proves.len() > 20, "{rule}: {cells:?}");
        for cause in says.split(", ") {
            assert!(
                explained.contains_key(cause.trim_matches('`')),
                "{rule}: {cause}"
            );
        }
    }
}

/// What a rule finds has one of the causes that the document names for it.
#[test]
fn a_rule_finds_the_causes_that_the_document_names_for_it() {
    let told = table("## Rules");
    for (rule, job) in ALL {
        let job = job(false);
        let (_, sentence) = tried(rule, &job);
        let verdict = judge(&[job.history()]).verdict;
        let mut all = std::iter::once(&verdict).chain(&verdict.findings);
        let found = all.find(|it| it.summary == sentence);
        let found = found.unwrap_or_else(|| panic!("{rule}: {sentence} is not told"));
        let named = format!("`{}`", found.cause.word());
        assert!(told[rule][0].contains(&named), "{rule} finds {named}");
    }
}
