//! What a process has to do with Python: its version, or the interpreters that it wraps.

use std::collections::BTreeMap;

use model::{Process, Snapshot};

use super::text::safe;

/// So many wrapped interpreters are named.
const MOST_NAMED: usize = 3;

/// Returns the version of an interpreter, or which interpreters a launcher or shell started.
pub(super) fn words(snapshot: &Snapshot, process: &Process) -> Option<String> {
    if process.python_candidate {
        let version = process.pyspy.as_ref()?.version.as_deref();
        return version.map(safe);
    }
    let wrapped = wrapped(snapshot, process.pid);
    let (named, others) = wrapped.split_at(wrapped.len().min(MOST_NAMED));
    let named: Vec<String> = named
        .iter()
        .map(|python| format!("{} ({})", python.pid, safe(&python.command)))
        .collect();
    let others = match others.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    (!named.is_empty()).then(|| format!("none itself; it wraps {}{others}", named.join(", ")))
}

/// The nearest interpreters below `pid`, the oldest first.
fn wrapped(snapshot: &Snapshot, pid: i32) -> Vec<&Process> {
    let processes = snapshot.processes.iter();
    let by_pid: BTreeMap<i32, &Process> = processes.map(|process| (process.pid, process)).collect();
    let is_below = |process: &Process| {
        let mut parent = process.ppid;
        // A chain is no longer than there are processes, even if what was read of them makes a ring.
        for _ in 0..by_pid.len() {
            match by_pid.get(&parent) {
                _ if parent == pid => return true,
                Some(next) if !next.python_candidate => parent = next.ppid,
                _ => return false,
            }
        }
        false
    };
    let by_age = snapshot.by_age().into_iter();
    let processes = by_age.map(|index| &snapshot.processes[index]);
    let pythons = processes.filter(|process| process.python_candidate);
    pythons.filter(|process| is_below(process)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::snapshot;
    use super::*;

    #[test]
    fn an_interpreter_says_its_version_and_a_wrapper_what_it_wraps() {
        let mut snapshot = snapshot();
        let stacks = snapshot.processes[1].pyspy.as_mut().unwrap();
        stacks.version = Some("3.11.7".to_owned());
        snapshot.processes[0].python_candidate = false;
        let wrapper = snapshot.processes[0].clone();
        assert_eq!(
            words(&snapshot, &snapshot.processes[1]).as_deref(),
            Some("3.11.7")
        );
        let words = words(&snapshot, &wrapper).unwrap();
        let start = "none itself; it wraps 101 (/usr/bin/python3 train.py)";
        assert!(words.starts_with(start), "{words}");
    }

    #[test]
    fn parents_in_a_ring_wrap_nothing_for_ever() {
        let mut snapshot = snapshot();
        for process in &mut snapshot.processes {
            process.python_candidate = false;
            process.ppid = process.pid;
        }
        let other = &mut snapshot.processes[1];
        other.python_candidate = true;
        other.ppid = 102;
        assert_eq!(words(&snapshot, &snapshot.processes[0]), None);
    }
}
