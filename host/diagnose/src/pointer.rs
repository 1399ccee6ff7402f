//! A value of a snapshot document by its RFC 6901 pointer, without writing out the whole document.

use model::Snapshot;
use serde::Serialize;
use serde_json::Value;

/// Returns the value that `pointer` leads to in the document of `snapshot`.
pub fn resolve(snapshot: &Snapshot, pointer: &str) -> Option<Value> {
    let (list, rest) = pointer.strip_prefix('/')?.split_once('/')?;
    match list {
        "processes" => item(&snapshot.processes, rest),
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
