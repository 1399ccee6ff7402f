//! A value of a snapshot document by its RFC 6901 pointer, without writing out the whole document.

use model::{Process, Snapshot, Thread};
use serde::Serialize;
use serde_json::Value;

/// Returns the value that `pointer` leads to in the document of `snapshot`.
pub fn resolve(snapshot: &Snapshot, pointer: &str) -> Option<Value> {
    let (list, rest) = pointer.strip_prefix('/')?.split_once('/')?;
    match list {
        "processes" => {
            let (index, rest) = rest.split_once('/').unwrap_or((rest, ""));
            of_process(snapshot.processes.get(index.parse::<usize>().ok()?)?, rest)
        }
        "ipc" => {
            let ipc = &snapshot.ipc;
            let (list, rest) = rest.split_once('/')?;
            match list {
                "endpoints" => item(&ipc.endpoints, rest),
                "futexes" => item(&ipc.futexes, rest),
                "locks" => item(&ipc.locks, rest),
                "shared_memory" => item(&ipc.shared_memory, rest),
                _ => None,
            }
        }
        "annotations" => item(&snapshot.annotations, rest),
        "cgroup" => below(&snapshot.cgroup, rest),
        "filesystem" => below(&snapshot.filesystem, rest),
        "machine" => below(&snapshot.machine, rest),
        "capture" => below(&snapshot.capture, rest),
        "scope" => below(&snapshot.scope, rest),
        "task" => below(&snapshot.task, rest),
        _ => None,
    }
}

/// One value of a process: its threads and stacks are most of it and are not written out for the sake of another.
fn of_process(process: &Process, rest: &str) -> Option<Value> {
    if rest.is_empty() {
        return serde_json::to_value(process).ok();
    }
    if let Some(rest) = rest.strip_prefix("proc/threads/") {
        let Some((index, rest)) = rest.split_once('/') else {
            return item(&process.proc.threads, rest);
        };
        let threads = &process.proc.threads;
        return of_thread(threads.get(index.parse::<usize>().ok()?)?, rest);
    }
    if let Some(rest) = rest.strip_prefix("pyspy/traces/") {
        return item(&process.pyspy.as_ref()?.traces, rest);
    }
    below(process, rest)
}

/// One value of a thread. Those that are cited of every thread of a deadlock are taken without writing out the others.
fn of_thread(thread: &Thread, rest: &str) -> Option<Value> {
    let (key, inner) = rest.split_once('/').unwrap_or((rest, ""));
    match key {
        "call" if !inner.is_empty() => below(thread.call.as_ref()?, inner),
        "schedstat" if inner.is_empty() => serde_json::to_value(thread.schedstat.as_ref()?).ok(),
        "unchanged_since" if inner.is_empty() => serde_json::to_value(thread.unchanged_since?).ok(),
        _ => below(thread, rest),
    }
}

fn item<T: Serialize>(list: &[T], rest: &str) -> Option<Value> {
    let (index, rest) = match rest.split_once('/') {
        Some((index, rest)) => (index, Some(rest)),
        None => (rest, None),
    };
    let item = list.get(index.parse::<usize>().ok()?)?;
    match rest {
        Some(rest) => below(item, rest),
        None => serde_json::to_value(item).ok(),
    }
}

fn below<T: Serialize>(whole: &T, rest: &str) -> Option<Value> {
    let whole = serde_json::to_value(whole).ok()?;
    whole.pointer(&format!("/{rest}")).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pointers of a value, itself included.
    fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
        all.push(at.to_owned());
        let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    pointers(item, &format!("{at}/{index}"), all);
                }
            }
            Value::Object(fields) => {
                for (key, field) in fields {
                    pointers(field, &format!("{at}/{}", escaped(key)), all);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn each_value_of_a_process_is_what_the_whole_document_has() {
        let text = include_str!("../../store/tests/fixtures/schema-1.0.json");
        let mut snapshot: Snapshot = serde_json::from_str(text).unwrap();
        let thread = &mut snapshot.processes[0].proc.threads[0];
        thread.call = Some(model::SystemCall {
            address: Some("0x1".to_owned()),
            name: "futex".to_owned(),
            ..model::SystemCall::default()
        });
        thread.schedstat = Some("1 2 3".to_owned());
        thread.unchanged_since = model::Timestamp::parse("2026-11-30T00:00:00Z");
        let whole = serde_json::to_value(&snapshot).unwrap();
        let mut all = Vec::new();
        for index in 0..snapshot.processes.len() {
            let at = format!("/processes/{index}");
            pointers(whole.pointer(&at).unwrap(), &at, &mut all);
        }
        assert!(all.iter().any(|it| it.contains("/proc/threads/0/")));
        assert!(all.iter().any(|it| it.contains("/pyspy/traces/0/")));
        for key in ["call", "call/address", "schedstat", "unchanged_since"] {
            let pointer = format!("/processes/0/proc/threads/0/{key}");
            assert!(all.contains(&pointer), "{pointer}");
        }
        for pointer in &all {
            let expected = whole.pointer(pointer);
            assert_eq!(resolve(&snapshot, pointer).as_ref(), expected, "{pointer}");
        }
        for none in [
            "/processes/99",
            "/processes/x",
            "/processes/0/proc/threads/99",
        ] {
            assert_eq!(resolve(&snapshot, none), None);
        }
    }
}
