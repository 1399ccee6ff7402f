//! As what a process runs, in a line or two: only what is out of the ordinary is said.

use std::fmt::Write as _;

use model::{NamespaceSet, Process, SeccompMode, Snapshot, scheduling_words};

use super::text::safe;

/// Returns how the process is scheduled: its CPUs, and what differs from the usual.
pub(super) fn scheduling(process: &Process) -> Option<String> {
    let facts = &process.proc;
    let mut words = Vec::new();
    if let Some(cpus) = &facts.allowed_cpus {
        words.push(format!("may use CPU {}", safe(cpus)));
    }
    if let Some(processor) = facts.processor {
        words.push(format!("last on {processor}"));
    }
    let scheduling = facts.scheduling.as_ref();
    words.extend(scheduling.and_then(scheduling_words));
    for (name, count) in [
        ("major faults", facts.major_faults),
        ("minor faults", facts.minor_faults),
    ] {
        if let Some(count) = count.filter(|&count| count > 0) {
            words.push(format!("{count} {name}"));
        }
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// Returns users, terminal and restrictions.
pub(super) fn identity(snapshot: &Snapshot, process: &Process) -> Option<String> {
    let facts = &process.proc;
    let mut words = Vec::new();
    if let Some(ids) = &facts.credentials {
        let mut user = format!("user {}", ids.real_uid);
        if ids.effective_uid != ids.real_uid {
            _ = write!(user, " as {}", ids.effective_uid);
        }
        words.push(user);
        words.push(format!("group {}", ids.effective_gid));
        if ids.dumpable == Some(false) {
            words.push("not dumpable".to_owned());
        }
        if ids.no_new_privs == Some(true) {
            words.push("no new privileges".to_owned());
        }
        if matches!(ids.seccomp, Some(SeccompMode::Strict | SeccompMode::Filter)) {
            words.push("seccomp".to_owned());
        }
    }
    if let Some(terminal) = facts.terminal.as_deref().filter(|name| *name != "none") {
        words.push(format!("terminal {}", safe(terminal)));
    }
    if let (Some(group), Some(session)) = (facts.process_group, facts.session) {
        words.push(format!("process group {group}, session {session}"));
    }
    if let Some(code) = facts.exit_code {
        words.push(format!("ended with status {code}"));
    }
    if let Some(signal) = facts.exit_signal {
        words.push(format!("ended by signal {signal}"));
    }
    if facts.core_dumping == Some(true) {
        words.push("writing a core dump".to_owned());
    }
    words.extend(namespaces(snapshot, process));
    (!words.is_empty()).then(|| words.join(", "))
}

/// Returns which namespaces are not those of the task's main process.
fn namespaces(snapshot: &Snapshot, process: &Process) -> Option<String> {
    let set = |process: &Process| {
        let index = usize::try_from(process.namespaces?).ok()?;
        snapshot.namespaces.get(index)
    };
    let root = snapshot.scope.as_ref()?.root;
    let mut processes = snapshot.processes.iter();
    let root = set(processes.find(|process| process.identity == root)?)?;
    let names = different(set(process)?, root);
    (!names.is_empty()).then(|| format!("namespaces of its own: {}", names.join(", ")))
}

fn different(set: &NamespaceSet, root: &NamespaceSet) -> Vec<&'static str> {
    let pairs = [
        ("cgroup", set.cgroup, root.cgroup),
        ("ipc", set.ipc, root.ipc),
        ("mount", set.mnt, root.mnt),
        ("network", set.net, root.net),
        ("pid", set.pid, root.pid),
        ("user", set.user, root.user),
        ("uts", set.uts, root.uts),
    ];
    let different = pairs
        .into_iter()
        .filter(|(_, own, other)| own.is_some() && other.is_some() && own != other);
    different.map(|(name, ..)| name).collect()
}
