//! The processes of a task that began since others looked for them, by their numbers.
//!
//! To ask every thread of a task for its children costs more than all the rest of a sample. But the kernel gives PIDs in their order
//! and says which it gave last (`/proc/loadavg`, fifth word; `kernel/pid.c` gives them cyclically). So whoever began since has one of
//! the numbers after the one that was last then, and only these are tried. Threads have such numbers as well, and a file under
//! `/proc` like a process, but another `Tgid`. A process that was given a number out of turn (`set_tid` of `clone3(2)`) is found when
//! all are looked for, which is done now and then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use model::ProcessId;

use crate::discover::identity;
use crate::family::Family;
use crate::machine::Machine;
use crate::proc::{Stat, status};
use crate::scope::Scope;

/// So long after all threads were asked for their children they are asked again.
const WHOLE_AGAIN: Duration = Duration::from_secs(10);
/// A process has its number a little before it can be seen, so each number is tried by looks that lie so far apart at least.
const APART: Duration = Duration::from_millis(300);
/// So many numbers are tried one by one; of more, those that `/proc` lists.
const MOST_TRIED: i32 = 64;

/// Which number was the last at looks before.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    newer: Option<(Instant, i32)>,
    older: Option<(Instant, i32)>,
    /// When the last look began that asked all threads.
    whole: Option<Instant>,
}

/// Numbers that were given: those after one up to another, around the end of all numbers where that is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    after: i32,
    last: i32,
}

impl Numbers {
    /// Returns the numbers that processes may have which no look before has seen; nothing where that cannot be told, or all threads are
    /// to be asked again. `last` is the number that was given last.
    pub(crate) fn given(&self, last: Option<i32>, now: Instant) -> Option<Given> {
        let ((_, after), last) = self.older.zip(last)?;
        let whole = self.whole?;
        let is_fresh = now.saturating_duration_since(whole) < WHOLE_AGAIN;
        is_fresh.then_some(Given { after, last })
    }

    /// Notes that a look has ended, and the scope remembers whom it has found. It began at `began`, when `last` was the number that was
    /// given last; `whole`: it asked all threads.
    pub(crate) fn looked(&mut self, began: Instant, last: Option<i32>, whole: bool) {
        let Some(last) = last else {
            return *self = Self::default();
        };
        if whole {
            self.whole = Some(began);
        }
        let is_apart = |(at, _): (Instant, i32)| began.saturating_duration_since(at) >= APART;
        if self.newer.is_none_or(is_apart) {
            self.older = self.newer.replace((began, last));
        }
    }
}

impl Given {
    pub(crate) fn is_empty(self) -> bool {
        self.after == self.last
    }

    fn has(self, number: i32) -> bool {
        if self.after <= self.last {
            self.after < number && number <= self.last
        } else {
            self.after < number || number <= self.last
        }
    }

    /// Returns those that may be processes now.
    fn candidates(self, family: &mut Family) -> Vec<i32> {
        let count = self.last.checked_sub(self.after);
        if count.is_some_and(|count| (0..=MOST_TRIED).contains(&count)) {
            return (self.after..self.last).map(|before| before + 1).collect();
        }
        let listed = family.all().into_iter();
        listed.filter(|&number| self.has(number)).collect()
    }
}

/// Adds to `known`, living processes of `scope`, which is a tree, those of its processes that have one of the numbers `given`, and
/// those that the scope remembers. The scope remembers them all from now on.
pub(crate) fn add(
    machine: &Machine,
    family: &mut Family,
    scope: &Scope,
    known: &mut BTreeMap<ProcessId, Stat>,
    given: Given,
) {
    // Until all have been found: a compiler of plugins may be started at any moment.
    let helpers = machine.helpers.hold();
    let remembered = scope.members().clone();
    for id in remembered {
        if !known.contains_key(&id) {
            known.extend(family.stat_of(id).map(|stat| (id, stat)));
        }
    }
    if given.is_empty() {
        return;
    }
    let mut parents: BTreeSet<i32> = known.keys().map(|id| id.pid).collect();
    let ours = machine.our_pids(&helpers);
    let new = given.candidates(family).into_iter();
    let new = new.filter(|pid| !ours.contains(pid) && !parents.contains(pid));
    let mut new: Vec<Stat> = new.filter_map(|pid| family.stat(pid)).collect();
    // One round for each generation: a child may have a lower number than its parent.
    loop {
        let is_child =
            |stat: &Stat| parents.contains(&stat.ppid) || scope.adopter == Some(stat.ppid);
        let (children, rest): (Vec<Stat>, Vec<Stat>) = new.into_iter().partition(is_child);
        let before = known.len();
        for stat in children {
            if is_process(family, stat.pid) {
                parents.insert(stat.pid);
                known.insert(identity(&stat), stat);
            }
        }
        if known.len() == before {
            break;
        }
        new = rest;
    }
    // Those that have ended are dropped when all are looked for.
    scope.members().extend(known.keys());
}

/// Whether `pid` is no thread of a process that has another number.
fn is_process(family: &mut Family, pid: i32) -> bool {
    let status = family.status(pid).map(status::parse);
    status.is_ok_and(|status| {
        let group = status.lines.get("Tgid");
        group.is_some_and(|group| *group == pid.to_string())
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::tests::local;

    /// The PIDs that are found where processes have `given` numbers, and only `parent` is known.
    fn found(parent: i32, given: Given) -> Vec<i32> {
        let machine = local();
        let id = machine.identify(parent).unwrap();
        let scope = Scope::tree(id, None);
        scope.members().insert(id);
        let (mut family, mut known) = (Family::of(&machine).unwrap(), BTreeMap::new());
        add(&machine, &mut family, &scope, &mut known, given);
        assert_eq!(*scope.members(), known.keys().copied().collect());
        let pids = known.into_keys().map(|id| id.pid);
        pids.filter(|&pid| pid != parent).collect()
    }

    fn only(number: i32) -> Given {
        Given {
            after: number - 1,
            last: number,
        }
    }

    /// A shell and its child.
    fn shell_with_child() -> (Child, i32) {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 600 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = shell.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        (shell, line.trim().parse().unwrap())
    }

    #[test]
    fn a_child_that_has_a_given_number_is_found_and_so_is_its_child() {
        let (mut shell, child) = shell_with_child();
        let own = std::process::id().cast_signed();
        let pid = shell.id().cast_signed();
        assert!(found(own, only(pid)).contains(&pid));
        assert_eq!(found(pid, only(child)), [child]);
        // Around the end of all numbers: every process that there is.
        let (after, last) = (pid.min(child) - 1, pid.min(child) - 2);
        let found_both = found(own, Given { after, last });
        assert!(
            found_both.contains(&pid) && found_both.contains(&child),
            "{found_both:?}"
        );
        assert!(
            !found(own, only(child)).contains(&child),
            "its parent is not known"
        );
        shell.kill().unwrap();
        shell.wait().unwrap();
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(child).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
    }

    #[test]
    fn a_thread_is_no_process_although_it_has_a_number_and_a_parent() {
        let seen = std::thread::spawn(|| {
            let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            let stat = Family::of(&local()).unwrap().stat(tid).unwrap();
            assert_eq!(stat.ppid, parent, "it looks like a child");
            found(parent, only(tid)).contains(&tid)
        });
        assert!(!seen.join().unwrap());
    }

    #[test]
    fn each_number_is_tried_by_looks_that_lie_apart() {
        let mut numbers = Numbers::default();
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let given = |numbers: &Numbers, last, milliseconds| {
            let given = numbers.given(Some(last), at(milliseconds));
            given.map(|given| (given.after, given.last))
        };
        assert_eq!(given(&numbers, 7, 0), None, "nobody has looked");
        numbers.looked(at(0), Some(7), true);
        assert_eq!(
            given(&numbers, 7, 200),
            None,
            "who had its number then may not have been seen"
        );
        numbers.looked(at(200), Some(7), true);
        numbers.looked(at(500), Some(8), true);
        assert_eq!(given(&numbers, 9, 900), Some((7, 9)));
        numbers.looked(at(900), Some(9), false);
        assert_eq!(given(&numbers, 9, 910), Some((8, 9)));
        numbers.looked(at(910), Some(9), false);
        assert_eq!(given(&numbers, 9, 1300), Some((8, 9)));
        numbers.looked(at(1300), Some(9), false);
        assert!(numbers.given(Some(9), at(1310)).unwrap().is_empty());
        assert_eq!(given(&numbers, 9, 10_499), Some((9, 9)));
        assert_eq!(
            given(&numbers, 9, 10_500),
            None,
            "all are to be asked again"
        );
        numbers.looked(at(10_500), None, true);
        assert_eq!(given(&numbers, 9, 10_501), None, "there are no numbers");
    }

    #[test]
    fn numbers_go_round() {
        let given = Given { after: 90, last: 4 };
        let has = [3, 4, 5, 90, 91, 4_000_000].map(|number| given.has(number));
        assert_eq!(has, [true, true, false, false, true, true]);
        assert!(!given.is_empty());
    }
}
