//! A snapshot as it lies in a store: what its threads say of futexes already is not said twice.
//!
//! A futex is named by the threads that wait for it: its process, its address (`call.address`) and its waiters stand there.
//! Far away from them, in `ipc.futexes`, they are what compresses worst. So `ipc.futex_kinds` has what is known of the words,
//! once for all that are alike, and where the threads are. Reading makes `ipc.futexes` of it again, as it was.

use std::collections::BTreeMap;

use model::{
    Annotation, Capture, Cgroup, Endpoint, Eventfd, FileLock, Filesystem, Finding, Futex, Gap, Ipc,
    MachineFacts, NamespaceSet, PluginOutcome, Process, ProcessId, ScopeFacts, SharedFile,
    Snapshot, SysvObject, Task,
};
use serde::{Deserialize, Serialize};

/// The stored document; every field of a [`Snapshot`] by its name.
#[derive(Serialize)]
pub(crate) struct Folded<'a> {
    annotations: &'a [Annotation],
    capture: &'a Capture,
    cgroup: &'a Cgroup,
    collector_version: &'a str,
    filesystem: &'a Filesystem,
    findings: &'a [Finding],
    focus_files: &'a [String],
    gaps: &'a [Gap],
    ipc: FoldedIpc<'a>,
    machine: &'a MachineFacts,
    #[serde(skip_serializing_if = "is_empty")]
    namespaces: &'a [NamespaceSet],
    plugins: &'a [PluginOutcome],
    processes: &'a [Process],
    schema_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a ScopeFacts>,
    task: &'a Task,
}

#[derive(Serialize)]
struct FoldedIpc<'a> {
    endpoints: &'a [Endpoint],
    #[serde(skip_serializing_if = "is_empty")]
    eventfds: &'a [Eventfd],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    futex_kinds: Vec<FutexKind>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    futexes: Vec<&'a Futex>,
    #[serde(skip_serializing_if = "is_empty")]
    locks: &'a [FileLock],
    #[serde(skip_serializing_if = "is_empty")]
    shared_memory: &'a [SharedFile],
    #[serde(skip_serializing_if = "is_empty")]
    sysv: &'a [SysvObject],
}

/// Futexes of which the same is known, but for who waits for them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct FutexFacts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expected: Option<u32>,
    operation: String,
    private: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FutexKind {
    facts: FutexFacts,
    /// For each process its index in `processes`, then those of its threads in `proc.threads` that wait for one.
    waiters: Vec<Vec<usize>>,
}

/// What of `ipc` is the store's own.
#[derive(Default, Deserialize)]
pub(crate) struct Kinds {
    #[serde(default)]
    futex_kinds: Vec<FutexKind>,
}

impl<'a> From<&'a Snapshot> for Folded<'a> {
    fn from(snapshot: &'a Snapshot) -> Self {
        // No `..`: a field that is added must be stored too.
        let Snapshot {
            annotations,
            capture,
            cgroup,
            collector_version,
            filesystem,
            findings,
            focus_files,
            gaps,
            ipc,
            machine,
            namespaces,
            plugins,
            processes,
            schema_version,
            scope,
            task,
        } = snapshot;
        Self {
            annotations,
            capture,
            cgroup,
            collector_version,
            filesystem,
            findings,
            focus_files,
            gaps,
            ipc: FoldedIpc::of(ipc, processes),
            machine,
            namespaces,
            plugins,
            processes,
            schema_version,
            scope: scope.as_ref(),
            task,
        }
    }
}

impl<'a> FoldedIpc<'a> {
    fn of(ipc: &'a Ipc, processes: &[Process]) -> Self {
        let Ipc {
            endpoints,
            eventfds,
            futexes,
            locks,
            shared_memory,
            sysv,
        } = ipc;
        let (futex_kinds, futexes) = fold(futexes, processes);
        Self {
            endpoints,
            eventfds,
            futex_kinds,
            futexes,
            locks,
            shared_memory,
            sysv,
        }
    }
}

/// By process and address, as they are listed.
type Place = (ProcessId, u64);

/// Returns the kinds of those futexes of which the threads tell the rest, and the others.
fn fold<'a>(futexes: &'a [Futex], processes: &[Process]) -> (Vec<FutexKind>, Vec<&'a Futex>) {
    if !futexes.is_sorted_by(|a, b| place(a) < place(b)) {
        return (Vec::new(), futexes.iter().collect());
    }
    let mut waiting = waiting(processes);
    let mut kinds: BTreeMap<FutexFacts, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
    let mut others = Vec::new();
    for futex in futexes {
        let told = place(futex).and_then(|place| waiting.remove(&place));
        let told = told.filter(|(_, threads)| {
            let tids = threads.iter().map(|(_, tid)| *tid);
            futex.owner_tid.is_none()
                && futex.owner_source.is_none()
                && tids.eq(futex.waiters.iter().copied())
        });
        let Some((process, threads)) = told else {
            others.push(futex);
            continue;
        };
        let facts = FutexFacts {
            expected: futex.expected,
            operation: futex.operation.clone(),
            private: futex.private,
            value: futex.value,
        };
        let indices = threads.into_iter().map(|(index, _)| index);
        let of_kind = kinds.entry(facts).or_default();
        of_kind.entry(process).or_default().extend(indices);
    }
    let kinds = kinds.into_iter().map(|(facts, waiters)| FutexKind {
        facts,
        waiters: waiters
            .into_iter()
            .map(|(process, mut threads)| {
                threads.sort_unstable();
                threads.insert(0, process);
                threads
            })
            .collect(),
    });
    (kinds.collect(), others)
}

/// Puts back into `snapshot` what was folded; the error says what does not fit.
pub(crate) fn unfold(snapshot: &mut Snapshot, kinds: Kinds) -> Result<(), String> {
    if kinds.futex_kinds.is_empty() {
        return Ok(());
    }
    let mut found: BTreeMap<Place, Futex> = BTreeMap::new();
    let mut left: usize = snapshot
        .processes
        .iter()
        .map(|it| it.proc.threads.len())
        .sum();
    for FutexKind { facts, waiters } in kinds.futex_kinds {
        for of_process in waiters {
            let none = || format!("ipc.futex_kinds names {of_process:?}, which is not there");
            let (process, threads) = of_process.split_first().ok_or_else(none)?;
            let process = snapshot.processes.get(*process).ok_or_else(none)?;
            for index in threads {
                let thread = process.proc.threads.get(*index).ok_or_else(none)?;
                let call = thread.call.as_ref();
                let address = call
                    .and_then(|call| call.address.clone())
                    .ok_or_else(none)?;
                let place = (process.identity, number(&address).ok_or_else(none)?);
                // A thread waits for one: more are no document of ours, and would fill the memory.
                left = left.checked_sub(1).ok_or_else(none)?;
                let futex = found.entry(place).or_insert_with(|| Futex {
                    address,
                    expected: facts.expected,
                    identity: process.identity,
                    operation: facts.operation.clone(),
                    owner_source: None,
                    owner_tid: None,
                    private: facts.private,
                    value: facts.value,
                    waiters: Vec::new(),
                });
                futex.waiters.push(thread.tid);
            }
        }
    }
    let futexes = &mut snapshot.ipc.futexes;
    futexes.extend(found.into_values());
    futexes.sort_by_key(place);
    Ok(())
}

/// Returns by process and address which threads wait there: the index of the process, of each thread, and its TID.
fn waiting(processes: &[Process]) -> BTreeMap<Place, (usize, Vec<(usize, i32)>)> {
    let mut waiting: BTreeMap<Place, (usize, Vec<(usize, i32)>)> = BTreeMap::new();
    for (of_process, process) in processes.iter().enumerate() {
        for (index, thread) in process.proc.threads.iter().enumerate() {
            let call = thread.call.as_ref().filter(|call| call.name == "futex");
            let address = call.and_then(|call| call.address.as_deref());
            if let Some(address) = address.and_then(number) {
                let at = waiting.entry((process.identity, address));
                let (_, threads) = at.or_insert_with(|| (of_process, Vec::new()));
                threads.push((index, thread.tid));
            }
        }
    }
    waiting
}

fn place(futex: &Futex) -> Option<Place> {
    Some((futex.identity, number(&futex.address)?))
}

/// Reads an address as it is written in snapshots, and in no other form, so that the same text comes back.
fn number(address: &str) -> Option<u64> {
    let digits = address.strip_prefix("0x")?;
    let is_plain = digits == "0" || !digits.starts_with(['0', '+']);
    let number = u64::from_str_radix(digits, 16).ok()?;
    (is_plain && !digits.contains(|it: char| it.is_ascii_uppercase())).then_some(number)
}

fn is_empty<T>(list: &[T]) -> bool {
    list.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format;
    use model::{FutexOwnerSource, SystemCall, Thread};
    use proptest::prelude::*;
    use serde_json::Value as Json;

    fn address(number: u64) -> String {
        format!("{number:#x}")
    }

    /// Processes whose threads wait at these addresses, with the futexes that a capture makes of them.
    fn snapshot(addresses: &[Vec<u64>]) -> Snapshot {
        let mut snapshot = crate::sample::snapshot(0);
        let first = snapshot.processes[0].clone();
        let mut futexes: BTreeMap<(ProcessId, u64), Futex> = BTreeMap::new();
        snapshot.processes.clear();
        for (pid, addresses) in (100..).step_by(100).zip(addresses) {
            let mut process = first.clone();
            process.pid = pid;
            process.identity.pid = pid;
            let tids = pid..;
            let threads = tids.zip(addresses).map(|(tid, number)| Thread {
                call: Some(SystemCall {
                    address: Some(address(*number)),
                    name: "futex".to_owned(),
                    ..SystemCall::default()
                }),
                tid,
                ..Thread::default()
            });
            process.proc.threads = threads.collect();
            for thread in &process.proc.threads {
                let number = addresses[usize::try_from(thread.tid - pid).unwrap()];
                let futex = futexes
                    .entry((process.identity, number))
                    .or_insert_with(|| Futex {
                        address: address(number),
                        expected: Some(0),
                        identity: process.identity,
                        operation: "wait_bitset".to_owned(),
                        owner_source: None,
                        owner_tid: None,
                        private: true,
                        value: (number % 3 != 0).then_some(0),
                        waiters: Vec::new(),
                    });
                futex.waiters.push(thread.tid);
            }
            snapshot.processes.push(process);
        }
        snapshot.ipc.futexes = futexes.into_values().collect();
        snapshot
    }

    fn stored(snapshot: &Snapshot) -> Json {
        serde_json::to_value(Folded::from(snapshot)).unwrap()
    }

    fn read_back(snapshot: &Snapshot) -> Snapshot {
        format::decode_copy(&format::encode(snapshot).unwrap(), "it").unwrap()
    }

    #[test]
    fn futexes_alike_are_stored_once_and_come_back_as_they_were() {
        let snapshot = snapshot(&[vec![16, 32, 16], vec![1 << 40], vec![30]]);
        let document = stored(&snapshot);
        let ipc = &document["ipc"];
        assert_eq!(ipc.get("futexes"), None);
        let kinds = ipc["futex_kinds"].as_array().unwrap();
        assert_eq!(kinds.len(), 2, "{kinds:#?}");
        assert_eq!(kinds[0]["waiters"], serde_json::json!([[2, 0]]));
        assert_eq!(
            kinds[1]["waiters"],
            serde_json::json!([[0, 0, 1, 2], [1, 0]])
        );
        assert_eq!(read_back(&snapshot), snapshot);
    }

    #[test]
    fn all_but_the_futexes_is_stored_as_it_is() {
        let snapshot = crate::sample::snapshot(3);
        let (mut whole, mut document) =
            (serde_json::to_value(&snapshot).unwrap(), stored(&snapshot));
        for document in [&mut whole, &mut document] {
            let ipc = document["ipc"].as_object_mut().unwrap();
            ipc.retain(|name, _| !name.starts_with("futex"));
        }
        assert_eq!(document, whole);
    }

    #[test]
    fn what_the_threads_do_not_tell_is_stored_in_full() {
        let mut snapshot = snapshot(&[vec![16, 32, 48], vec![16]]);
        let futexes = &mut snapshot.ipc.futexes;
        futexes[0].owner_tid = Some(7);
        futexes[0].owner_source = Some(FutexOwnerSource::PiWord);
        futexes[1].waiters.push(4000);
        let document = stored(&snapshot);
        assert_eq!(document["ipc"]["futexes"].as_array().unwrap().len(), 2);
        assert_eq!(read_back(&snapshot), snapshot);
        // Whatever order they come in, it stays.
        snapshot.ipc.futexes.reverse();
        assert_eq!(stored(&snapshot)["ipc"].get("futex_kinds"), None);
        assert_eq!(read_back(&snapshot), snapshot);
    }

    #[test]
    fn threads_that_are_not_there_are_refused() {
        let whole = stored(&snapshot(&[vec![16, 32]]));
        for waiters in ["[[]]", "[[1,0]]", "[[0,2]]", "[[0,0,1,0]]"] {
            let mut document = whole.clone();
            document["ipc"]["futex_kinds"][0]["waiters"] = serde_json::from_str(waiters).unwrap();
            let read = format::decode_copy(document.to_string().as_bytes(), "it");
            let error = format!("{:?}", read.unwrap_err());
            assert!(
                error.contains("ipc.futex_kinds names ["),
                "{waiters}: {error}"
            );
        }
    }

    proptest! {
        #[test]
        fn whatever_threads_wait_for_comes_back(
            addresses in prop::collection::vec(prop::collection::vec(1..9_u64, 0..6), 0..5),
            kept in prop::collection::vec(any::<bool>(), 30),
        ) {
            let mut snapshot = snapshot(&addresses);
            let mut kept = kept.into_iter();
            snapshot.ipc.futexes.retain(|_| kept.next().unwrap());
            prop_assert_eq!(read_back(&snapshot), snapshot);
        }
    }
}
