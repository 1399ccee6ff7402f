//! A value of a snapshot document by its RFC 6901 pointer, without writing out the whole document.

use model::{Process, Snapshot};
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
        return item(&process.proc.threads, rest);
    }
    if let Some(rest) = rest.strip_prefix("pyspy/traces/") {
        return item(&process.pyspy.as_ref()?.traces, rest);
    }
    below(process, rest)
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
        let snapshot: Snapshot = serde_json::from_str(text).unwrap();
        let whole = serde_json::to_value(&snapshot).unwrap();
        let mut all = Vec::new();
        for index in 0..snapshot.processes.len() {
            let at = format!("/processes/{index}");
            pointers(whole.pointer(&at).unwrap(), &at, &mut all);
        }
        assert!(all.iter().any(|it| it.contains("/proc/threads/0/")));
        assert!(all.iter().any(|it| it.contains("/pyspy/traces/0/")));
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
