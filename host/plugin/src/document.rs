//! The snapshot as plugins see it: together with what earlier ones said, and without what is not granted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use model::{Annotation, Finding, ProcessId, Snapshot, StackTable};
use serde_json::Value;

use crate::bindings::taskscope::plugin::snapshot::Encoding;
use crate::bindings::taskscope::plugin::types::Error;
use crate::encode;
use crate::grants::Grants;

/// A snapshot and what the plugins of this turn added so far.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) added_annotations: Vec<Annotation>,
    pub(crate) added_findings: Vec<Finding>,
    pub(crate) snapshot: Arc<Snapshot>,
    /// Once it is finished: what was encoded of it, by how, and for whom.
    encoded: Arc<Mutex<Vec<(Encoding, Grants, Bytes)>>>,
    size_bytes: OnceLock<u64>,
    stacks: OnceLock<StackTable>,
    threads: OnceLock<ThreadStacks>,
}

/// The stack of a thread, and whether the thread holds the lock of its interpreter.
pub(crate) type ThreadStacks = HashMap<(ProcessId, u64), ThreadStack>;

/// See [`ThreadStacks`].
#[derive(Clone, Debug)]
pub(crate) struct ThreadStack {
    pub(crate) name: Option<String>,
    pub(crate) owns_gil: bool,
    pub(crate) stack: u32,
}

/// Counts what is written.
struct Count(u64);

impl std::io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Document {
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> Self {
        Self {
            added_annotations: Vec::new(),
            added_findings: Vec::new(),
            snapshot,
            encoded: Arc::default(),
            size_bytes: OnceLock::new(),
            stacks: OnceLock::new(),
            threads: OnceLock::new(),
        }
    }

    /// All annotations so far.
    pub(crate) fn annotations(&self) -> impl Iterator<Item = &Annotation> {
        self.snapshot
            .annotations
            .iter()
            .chain(&self.added_annotations)
    }

    /// All findings so far.
    pub(crate) fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.snapshot.findings.iter().chain(&self.added_findings)
    }

    /// How long the snapshot is as JSON, bytes, which is about what it takes in memory. Counted once.
    pub(crate) fn size_bytes(&self) -> u64 {
        *self.size_bytes.get_or_init(|| {
            let mut count = Count(0);
            // It can be written: everything else here is made of that as well.
            let written = serde_json::to_writer(&mut count, &*self.snapshot);
            debug_assert!(written.is_ok(), "{written:?}");
            count.0
        })
    }

    /// The distinct stacks, counted once.
    pub(crate) fn stacks(&self) -> &StackTable {
        self.stacks.get_or_init(|| StackTable::of(&self.snapshot))
    }

    /// The Python stacks whose kernel thread is known, by process and thread.
    pub(crate) fn stacks_of_threads(&self) -> &ThreadStacks {
        self.threads.get_or_init(|| {
            let stacks = self.stacks();
            let traces = self.snapshot.processes.iter().flat_map(|process| {
                let traces = process.pyspy.iter().flat_map(|stacks| &stacks.traces);
                traces.map(|trace| (process.identity, trace))
            });
            traces
                .zip(&stacks.traces)
                .filter_map(|((process, trace), &(_, _, stack))| {
                    let found = ThreadStack {
                        name: trace.thread_name.clone(),
                        owns_gil: trace.owns_gil,
                        stack,
                    };
                    Some(((process, trace.os_thread_id?), found))
                })
                .collect()
        })
    }

    /// The whole snapshot with what was added and without what is not granted.
    pub(crate) fn whole(&self, grants: &Grants) -> Snapshot {
        let mut snapshot = Snapshot::clone(&self.snapshot);
        snapshot
            .annotations
            .extend_from_slice(&self.added_annotations);
        snapshot.findings.extend_from_slice(&self.added_findings);
        for process in &mut snapshot.processes {
            grants.filter(&mut process.distributed_environment);
        }
        snapshot
    }

    /// The whole snapshot, encoded.
    pub(crate) fn encode(&self, how: Encoding, grants: &Grants) -> Result<Vec<u8>, Error> {
        encode::encode(self.whole(grants), how)
    }

    /// The whole snapshot, encoded once for all that may see the same of it. Nothing may be added to it any more.
    pub(crate) fn encode_once(&self, how: Encoding, grants: &Grants) -> Result<Bytes, Error> {
        let mut encoded = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        let known = encoded
            .iter()
            .find(|(other, to, _)| *other == how && to == grants);
        if let Some((_, _, bytes)) = known {
            return Ok(bytes.clone());
        }
        let bytes = Bytes::from(self.encode(how, grants)?);
        encoded.push((how, grants.clone(), bytes.clone()));
        Ok(bytes)
    }

    /// The value at an RFC 6901 pointer into [`Document::whole`], without building more than the part it is in.
    pub(crate) fn at(&self, pointer: &str, grants: &Grants) -> Option<Value> {
        let (part, rest) = split_part(pointer);
        self.part(part, grants)?.pointer_mut(rest).map(Value::take)
    }

    /// The value of a part that [`split_part`] names.
    pub(crate) fn part(&self, part: &str, grants: &Grants) -> Option<Value> {
        let snapshot = &self.snapshot;
        let value = match part {
            "" => serde_json::to_value(self.whole(grants)),
            "/annotations" => serde_json::to_value(self.annotations().collect::<Vec<_>>()),
            "/capture" => serde_json::to_value(&snapshot.capture),
            "/cgroup" => serde_json::to_value(&snapshot.cgroup),
            "/collector_version" => serde_json::to_value(&snapshot.collector_version),
            "/filesystem" => serde_json::to_value(&snapshot.filesystem),
            "/findings" => serde_json::to_value(self.findings().collect::<Vec<_>>()),
            "/focus_files" => serde_json::to_value(&snapshot.focus_files),
            "/gaps" => serde_json::to_value(&snapshot.gaps),
            "/ipc" => serde_json::to_value(&snapshot.ipc),
            "/machine" => serde_json::to_value(&snapshot.machine),
            "/plugins" => serde_json::to_value(&snapshot.plugins),
            "/processes" => serde_json::to_value(self.whole(grants).processes),
            "/schema_version" => serde_json::to_value(&snapshot.schema_version),
            "/scope" => serde_json::to_value(snapshot.scope.as_ref()?),
            "/task" => serde_json::to_value(&snapshot.task),
            other => {
                let index = other.strip_prefix("/processes/")?;
                let is_canonical = index == "0" || !index.starts_with(['0', '+']);
                let process = snapshot.processes.get(index.parse::<usize>().ok()?);
                let mut process = process.filter(|_| is_canonical)?.clone();
                grants.filter(&mut process.distributed_environment);
                serde_json::to_value(process)
            }
        };
        value.ok()
    }
}

/// Splits a pointer into the part of the document that it leads into, one process or one top-level value, and the
/// pointer inside that part.
pub(crate) fn split_part(pointer: &str) -> (&str, &str) {
    let skipped = if pointer.starts_with("/processes/") {
        "/processes/".len()
    } else {
        1
    };
    let inside = pointer.get(skipped..).unwrap_or_default();
    let end = inside
        .find('/')
        .map_or(pointer.len(), |slash| skipped + slash);
    pointer.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document() -> Document {
        let time = "2026-11-30T01:33:20.000000Z";
        let snapshot = json!({
            "capture": {
                "completed_at": time, "duration_ms": 1.5, "id": "20261130T013320.000000Z-000007", "sequence": 7,
                "started_at": time,
            },
            "cgroup": { "files": {}, "version": 2 },
            "collector_version": "0.1.0",
            "filesystem": { "shared_memory": { "available": false, "path": "/dev/shm" } },
            "focus_files": ["a~b/c"],
            "ipc": { "endpoints": [] },
            "processes": [{
                "cgroup": [], "cmdline": ["python3"], "command": "python3", "exe": null, "identity": "100:7",
                "distributed_environment": { "RANK": "0", "SECRET": "x" }, "matches_pattern": false, "pid": 100,
                "ppid": 1, "python_candidate": true, "start_time_ticks": 7, "state": "S",
                "proc": {
                    "file_descriptors": [], "io": {}, "kernel_stack": [], "limits": [], "schedstat": null,
                    "status": {}, "syscall": null, "threads": [], "wchan": null,
                },
            }],
            "schema_version": "1.1",
            "scope": { "kind": "tree", "root": "100:7" },
            "task": { "attempt": 0, "host": "h", "node": "n", "pathspec": "a/b" },
        });
        Document::new(Arc::new(serde_json::from_value(snapshot).unwrap()))
    }

    #[test]
    fn its_size_is_that_of_its_json() {
        let document = document();
        let text = serde_json::to_string(&*document.snapshot).unwrap();
        assert_eq!(document.size_bytes(), text.len() as u64);
    }

    #[test]
    fn every_top_level_value_is_a_part() {
        let document = document();
        let grants = Grants::new(vec!["*".to_owned()]);
        let whole = serde_json::to_value(&*document.snapshot).unwrap();
        assert_eq!(document.at("", &grants).as_ref(), Some(&whole));
        for (key, value) in whole.as_object().unwrap() {
            assert_eq!(
                document.at(&format!("/{key}"), &grants).as_ref(),
                Some(value),
                "{key}"
            );
        }
    }

    #[test]
    fn pointers_lead_into_parts_and_past_the_end_to_nothing() {
        let document = document();
        let at = |pointer: &str| {
            document
                .at(pointer, &Grants::default())
                .map(|value| value.to_string())
        };
        assert_eq!(at("/processes/0/pid").as_deref(), Some("100"));
        assert_eq!(at("/scope/root").as_deref(), Some("\"100:7\""));
        assert_eq!(at("/focus_files/0").as_deref(), Some("\"a~b/c\""));
        for nowhere in [
            "/",
            "//",
            "x",
            "processes/0",
            "/processes/",
            "/processes/1",
            "/processes/00",
            "/nothing/0",
        ] {
            assert_eq!(at(nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn no_pointer_leads_to_what_is_not_granted() {
        let document = document();
        let grants = Grants::new(vec!["RANK".to_owned()]);
        for pointer in [
            "",
            "/processes",
            "/processes/0",
            "/processes/0/distributed_environment",
        ] {
            let text = document.at(pointer, &grants).unwrap().to_string();
            assert!(
                text.contains("RANK") && !text.contains("SECRET"),
                "{pointer}: {text}"
            );
        }
    }
}
