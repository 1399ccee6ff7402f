//! What changed between two snapshots of one node: data first, then a page. Nothing here reads anything.

mod activity;
mod cgroups;
mod gaps;
mod page;
mod processes;
mod threads;

use std::time::Duration;

use model::{ProcessId, Snapshot, SnapshotId};
use serde::Serialize;

use crate::page::Notes;
pub(crate) use page::page;

/// What changed from one snapshot to a later one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Diff {
    /// What each process that is in both has done meanwhile.
    pub(crate) activities: Vec<activity::Activity>,
    /// The most telling first.
    pub(crate) changes: Vec<Change>,
    pub(crate) from: SnapshotId,
    pub(crate) node: String,
    /// From one capture to the other, by the wall clock; absent where it was set back.
    pub(crate) seconds: Option<f64>,
    pub(crate) task: String,
    pub(crate) to: SnapshotId,
}

/// One thing that changed, or that did not though it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    /// What plugins say it is, such as `rank 3`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) part: String,
    /// Absent for the machine and its cgroups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) process: Option<ProcessId>,
    /// In words, without the process.
    pub(crate) text: String,
    /// The kernel's id of the thread, where it is about one that is not the main thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thread: Option<i32>,
    /// The name that Python has for that thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thread_name: Option<String>,
}

/// What a change is about; in the order in which they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// The machine was started anew: nothing else can be compared.
    Reboot,
    /// Killed for memory, throttled, at a limit.
    Cgroup,
    /// It is not there any more, or a zombie now.
    Went,
    /// It is new.
    Came,
    /// It runs another program.
    Exec,
    /// Running, sleeping, stopped.
    State,
    /// It stands where it stood, and has not run.
    Stuck,
    /// Another place in the program.
    Moved,
    /// The same place, but it has been elsewhere, or runs in it.
    Back,
    /// Another wait in the kernel, where there is no stack.
    Wait,
    /// RSS.
    Memory,
    /// It could be seen and cannot now.
    Unseen,
    /// It could not be seen and can now.
    Seen,
}

/// Returns what changed from `from` to `to`, which is later.
pub(crate) fn compare(from: &Snapshot, to: &Snapshot) -> Diff {
    let seconds = to.capture.started_at.since(from.capture.started_at);
    let over = (!seconds.is_zero()).then_some(seconds);
    let mut changes = Vec::new();
    let mut activities = Vec::new();
    let boots = (&from.machine.boot_id, &to.machine.boot_id);
    if let (Some(before), Some(after)) = boots
        && before != after
    {
        let text = "the machine was started anew in between; processes cannot be compared";
        changes.push(Change::of_all(Kind::Reboot, text.to_owned()));
    } else {
        changes.extend(cgroups::changes(from, to));
        changes.extend(processes::changes(from, to));
        for (before, after) in both(from, to) {
            let activity = activity::of(from, to, before, after, over);
            let is_stepping = activity.steps.iter().any(|step| step.from != step.to);
            let threads = threads::changes(to, before, after).into_iter();
            // Who counts on comes back to the same line.
            changes.extend(threads.filter(|it| !(is_stepping && it.kind == Kind::Back)));
            changes.extend(processes::memory(before, after));
            activities.push(activity);
        }
        changes.extend(gaps::changes(from, to));
    }
    let (notes, earlier) = (Notes::of(to), Notes::of(from));
    for change in &mut changes {
        if let Some(process) = change.process {
            change.part = notes.part(process);
            if change.part.is_empty() {
                change.part = earlier.part(process);
            }
        }
    }
    changes.sort_by_key(|change| change.kind);
    Diff {
        activities,
        changes,
        from: from.capture.id,
        node: to.task.node.clone(),
        seconds: over.map(|over| over.as_secs_f64()),
        task: to.task.pathspec.to_string(),
        to: to.capture.id,
    }
}

impl Change {
    fn of_all(kind: Kind, text: String) -> Self {
        Self {
            kind,
            part: String::new(),
            process: None,
            text,
            thread: None,
            thread_name: None,
        }
    }

    fn of(kind: Kind, process: ProcessId, text: String) -> Self {
        Self {
            process: Some(process),
            ..Self::of_all(kind, text)
        }
    }
}

/// Returns the processes that are in both, by PID.
fn both<'a>(
    from: &'a Snapshot,
    to: &'a Snapshot,
) -> impl Iterator<Item = (&'a model::Process, &'a model::Process)> {
    to.processes.iter().filter_map(|after| {
        let mut processes = from.processes.iter();
        let before = processes.find(|before| before.identity == after.identity)?;
        Some((before, after))
    })
}

/// Returns how fast something grew.
fn per_second(grown: u64, over: Option<Duration>) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a rate has three digits")]
    over.map(|over| grown as f64 / over.as_secs_f64())
}

#[cfg(test)]
mod tests;
