//! Without any one thing that was seen, the answer is the same or none: never a wrong one that is as certain.

use std::collections::BTreeSet;

use model::{Gap, GapCode, Obituary, ProcessId, Snapshot};
use serde_json::Value;
use taskscope_diagnose::{Cause, State, Verdict, judge};

use crate::rules::Job;

/// Lists of records in a snapshot, and what tells one from the others.
const RECORDS: [(&str, &[&str]); 7] = [
    ("/annotations", &["key", "target"]),
    ("/cgroup/chain", &["hierarchy", "path"]),
    ("/filesystem/mounts", &["path", "purpose"]),
    ("/ipc/endpoints", &["target"]),
    ("/ipc/futexes", &["address", "identity"]),
    ("/ipc/locks", &["path", "holder"]),
    ("/ipc/shared_memory", &["name", "inode"]),
];

/// What of a process may be kept from us, as gaps name it.
const OF_A_PROCESS: [&str; 4] = ["fd", "ipc/maps", "python_stack", "task"];

/// Asserts it of each value that `right`, the answer to `snapshots`, cites, and of each record that may be cited.
#[track_caller]
pub(crate) fn any_one(snapshots: &[Snapshot], right: &Verdict) {
    let documents = snapshots.iter().map(|it| serde_json::to_value(it).unwrap());
    let documents: Vec<Value> = documents.collect();
    for evidence in &right.evidence {
        let cut = documents.iter().cloned().map(|mut document| {
            without(&mut document, &evidence.path);
            document
        });
        is_no_lie(cut, right, &evidence.path);
    }
    for (list, keys) in RECORDS {
        let items = documents
            .iter()
            .filter_map(|it| it.pointer(list)?.as_array());
        let names: BTreeSet<String> = items.flatten().map(|it| name(it, keys)).collect();
        for gone in names {
            let cut = documents.iter().cloned().map(|mut document| {
                if let Some(Value::Array(items)) = document.pointer_mut(list) {
                    items.retain(|it| name(it, keys) != gone);
                }
                document
            });
            is_no_lie(cut, right, &format!("{list}: {gone}"));
        }
    }
    let all = snapshots.iter().flat_map(|it| &it.processes);
    let all: BTreeSet<ProcessId> = all.map(|process| process.identity).collect();
    for process in all {
        for what in OF_A_PROCESS {
            let cut = snapshots.iter().cloned().map(|mut snapshot| {
                keep_back(&mut snapshot, process, what);
                serde_json::to_value(snapshot).unwrap()
            });
            is_no_lie(cut, right, &format!("{what} of {process}"));
        }
    }
}

/// Takes away what a process keeps from us, and says so as a capture does.
fn keep_back(snapshot: &mut Snapshot, process: ProcessId, what: &str) {
    let it = snapshot
        .processes
        .iter_mut()
        .find(|it| it.identity == process);
    let Some(it) = it else {
        return;
    };
    match what {
        "fd" => {
            it.proc.file_descriptors.clear();
            for endpoint in &mut snapshot.ipc.endpoints {
                endpoint.owners.retain(|owner| owner.identity != process);
            }
        }
        "ipc/maps" => {
            for file in &mut snapshot.ipc.shared_memory {
                file.mapped.retain(|mapping| mapping.identity != process);
            }
        }
        "python_stack" => it.pyspy = None,
        _ => it.proc.threads.clear(),
    }
    snapshot
        .gaps
        .push(Gap::new(what, GapCode::Denied).of(process));
}

/// What tells a record from the others of its list.
fn name(record: &Value, keys: &[&str]) -> String {
    let parts = keys.iter().map(|key| record[*key].to_string());
    parts.collect::<Vec<String>>().join(" ")
}

/// Takes the value at `pointer` away, where it is the value of a key.
fn without(document: &mut Value, pointer: &str) {
    let parent = pointer.rsplit_once('/');
    let found = parent.and_then(|(parent, key)| {
        let object = document.pointer_mut(parent)?.as_object_mut()?;
        Some((object, key))
    });
    if let Some((object, key)) = found {
        object.remove(key);
    }
}

/// Asserts it of the documents without `what`. Those that are no snapshots any more are not read at all.
#[track_caller]
fn is_no_lie(documents: impl Iterator<Item = Value>, right: &Verdict, what: &str) {
    let snapshots = documents.map(|it| serde_json::from_value::<Snapshot>(it).ok());
    let Some(snapshots) = snapshots.collect::<Option<Vec<Snapshot>>>() else {
        return;
    };
    let verdict = judge(&[Job::from(snapshots).history()]);
    compare(&verdict.verdict, right, what);
}

#[track_caller]
fn compare(verdict: &Verdict, right: &Verdict, what: &str) {
    let culprit = |it: &Verdict| it.culprit.as_ref().map(|culprit| culprit.pid);
    let is_unclear = verdict.verdict == right.verdict && culprit(verdict).is_none();
    let is_none = is_unclear
        || matches!(
            verdict.verdict,
            State::Unknown | State::Healthy | State::Finished
        );
    // Whose other end is not seen waits for somebody who is not known: that is true, and blames nobody else.
    let is_less = verdict.cause == Cause::WaitingForPeer && {
        let waiting = right.victims.iter().map(|victim| victim.pid);
        let mut waiting = waiting.chain(culprit(right));
        waiting.any(|pid| Some(pid) == culprit(verdict))
    };
    // What was true beside it stays true.
    let mut known = std::iter::once(right).chain(&right.findings);
    let is_known = known.any(|it| {
        it.cause == verdict.cause && (culprit(verdict).is_none() || culprit(it) == culprit(verdict))
    });
    // Of several that are behind any may be the example; none of those that wait for them.
    let is_another = verdict.cause == Cause::RankBehind && right.cause == Cause::RankBehind && {
        let mut waiting = right.victims.iter().map(|victim| victim.pid);
        !waiting.any(|pid| Some(pid) == culprit(verdict))
    };
    assert!(
        is_none || is_less || is_known || is_another,
        "without {what}: {} instead of {}",
        serde_json::to_string_pretty(verdict).unwrap(),
        right.summary
    );
}

/// Asserts it of each of the ends, that it is not told at all.
#[track_caller]
pub(crate) fn any_end(snapshots: &[Snapshot], ends: &[Obituary], right: &Verdict) {
    for gone in 0..ends.len() {
        let mut job = Job::from(snapshots.to_vec());
        job.ends = ends.to_vec();
        job.ends.remove(gone);
        let verdict = judge(&[job.history()]);
        let what = format!("the end of {}", ends[gone].process);
        compare(&verdict.verdict, right, &what);
    }
}
