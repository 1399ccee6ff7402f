//! What a process waits for or keeps others from, as far as pipes, sockets, locks and futexes tell.

use std::fmt::Write as _;

use model::{
    Endpoint, FileLock, Futex, FutexOwnerSource, Owner, PipeEnd, Process, ProcessId, Snapshot,
    SocketFacts,
};

use super::table;
use super::text::safe;

/// How many holders a line names.
const NAMED: usize = 4;

/// Returns a line for each lock and futex that the process has part in.
pub(super) fn locks(snapshot: &Snapshot, process: ProcessId) -> Vec<(&'static str, String)> {
    let ipc = &snapshot.ipc;
    let locks = ipc.locks.iter().filter_map(|lock| lock_line(lock, process));
    let futexes = ipc.futexes.iter();
    let futexes = futexes.filter(|futex| futex.identity == process);
    locks.chain(futexes.map(futex_line)).collect()
}

/// Returns what is to be said of the descriptor `fd` beside its target.
pub(super) fn descriptor(snapshot: &Snapshot, process: &Process, fd: &str) -> Option<String> {
    let is_ours = |owner: &&Owner| owner.identity == process.identity && owner.fd == fd;
    let (endpoint, ours) = snapshot.ipc.endpoints.iter().find_map(|endpoint| {
        let ours = endpoint.owners.iter().find(is_ours)?;
        Some((endpoint, ours))
    })?;
    let mut words = Vec::new();
    if let Some(end) = ours.end {
        words.push(pipe_words(endpoint, ours, end));
    }
    if let Some(unix) = &endpoint.unix {
        let mut text = format!("unix {}, {}", safe(&unix.socket_type), safe(&unix.state));
        if let Some(path) = &unix.path {
            _ = write!(text, ", {}", safe(path));
        }
        words.push(text + &queues(unix.receive_queue, unix.send_queue, &unix.state));
    }
    if let Some(tcp) = &endpoint.tcp {
        let (local, remote) = (safe(&tcp.local), safe(&tcp.remote));
        let mut text = if tcp.state == "listen" {
            format!("tcp, listens at {local}")
        } else {
            format!("tcp {local} to {remote}, {}", safe(&tcp.state))
        };
        if tcp.retransmits > 0 {
            _ = write!(text, ", sent again {} times", tcp.retransmits);
        }
        let queues = queues(Some(tcp.receive_queue), Some(tcp.send_queue), &tcp.state);
        words.push(text + &queues);
    }
    if let Some(socket) = &endpoint.socket {
        words.push(socket_words(socket));
    }
    if let Some(peer) = &endpoint.peer {
        let mut endpoints = snapshot.ipc.endpoints.iter();
        let held = endpoints.find(|other| other.target == *peer);
        words.push(match held {
            Some(held) => format!("peer: {}", holders(held.owners.iter(), process.identity)),
            None => format!("peer {} is not in the task", safe(peer)),
        });
    }
    (!words.is_empty()).then(|| words.join("; "))
}

fn socket_words(socket: &SocketFacts) -> String {
    let mut text = safe(&socket.protocol);
    for (before, address) in [(" ", &socket.local), (" to ", &socket.remote)] {
        if let Some(address) = address {
            _ = write!(text, "{before}{}", safe(address));
        }
    }
    if let Some(state) = &socket.state {
        _ = write!(text, ", {}", safe(state));
    }
    let queues = [
        (socket.receive_queue, "to read"),
        (socket.send_queue, "to send"),
    ];
    for (bytes, what) in queues {
        if let Some(bytes) = bytes.filter(|&bytes| bytes > 0) {
            _ = write!(text, ", {} {what}", table::bytes(bytes));
        }
    }
    if let Some(drops) = socket.drops.filter(|&drops| drops > 0) {
        _ = write!(text, ", {drops} lost");
    }
    text
}

fn pipe_words(endpoint: &Endpoint, ours: &Owner, end: PipeEnd) -> String {
    let mut text = match end {
        PipeEnd::Read => "read end",
        PipeEnd::Write => "write end",
        PipeEnd::Both => "both ends",
    }
    .to_owned();
    if let Some(pipe) = &endpoint.pipe {
        let waiting = table::bytes(pipe.bytes_waiting);
        _ = write!(text, ", {waiting} of {}", table::bytes(pipe.capacity_bytes));
        for (there, whom) in [(pipe.has_readers, "reader"), (pipe.has_writers, "writer")] {
            if there == Some(false) {
                _ = write!(text, ", no {whom} is left");
            }
        }
    }
    let others = endpoint.owners.iter();
    let mut others = others
        .filter(|owner| owner.end != ours.end || end == PipeEnd::Both)
        .filter(|owner| *owner != ours)
        .peekable();
    if others.peek().is_some() {
        let held = holders(others, ours.identity);
        _ = write!(text, "; other end: {held}");
    }
    text
}

fn queues(receive: Option<u32>, send: Option<u32>, state: &str) -> String {
    if state == "listen" {
        return match receive {
            Some(waiting) if waiting > 0 => format!(", {waiting} connections to accept"),
            _ => String::new(),
        };
    }
    let mut text = String::new();
    for (bytes, what) in [(receive, "to read"), (send, "sent and not taken")] {
        if let Some(bytes) = bytes.filter(|&bytes| bytes > 0) {
            _ = write!(text, ", {} {what}", table::bytes(u64::from(bytes)));
        }
    }
    text
}

fn holders<'a>(owners: impl Iterator<Item = &'a Owner>, own: ProcessId) -> String {
    let all: Vec<String> = owners
        .map(|owner| {
            let whose = if owner.identity == own {
                "itself".to_owned()
            } else {
                owner.pid.to_string()
            };
            format!("{whose} fd {}", safe(&owner.fd))
        })
        .collect();
    let mut text = all
        .iter()
        .take(NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if all.len() > NAMED {
        _ = write!(text, " and {} more", all.len() - NAMED);
    }
    text
}

fn lock_line(lock: &FileLock, process: ProcessId) -> Option<(&'static str, String)> {
    let waits = lock.waiters.iter().any(|one| one.identity == Some(process));
    let holds =
        lock.holder == Some(process) || lock.owners.iter().any(|owner| owner.identity == process);
    if !waits && !holds {
        return None;
    }
    let class = format!("{} {}", safe(&lock.class), safe(&lock.access));
    let file = lock
        .path
        .as_deref()
        .map_or_else(|| "a file".to_owned(), safe);
    let mut text = format!("{class} lock of {file}");
    if waits {
        let holder = lock.holder_pid.map(|pid| format!(", held by {pid}"));
        text.push_str(&holder.unwrap_or_default());
        return Some(("waits for", text));
    }
    if !lock.waiters.is_empty() {
        _ = write!(text, ", which {} wait for", lock.waiters.len());
    }
    Some(("holds", text))
}

fn futex_line(futex: &Futex) -> (&'static str, String) {
    let waiters: Vec<String> = futex
        .waiters
        .iter()
        .take(NAMED)
        .map(i32::to_string)
        .collect();
    let mut text = format!("futex {}", safe(&futex.address));
    match (futex.owner_tid, futex.owner_source) {
        (Some(tid), Some(FutexOwnerSource::MutexField)) => {
            _ = write!(text, ", a mutex that thread {tid} holds");
        }
        (Some(tid), _) => _ = write!(text, ", held by thread {tid}"),
        (None, _) => {
            if let Some(value) = futex.value {
                _ = write!(text, ", value {value}");
            }
        }
    }
    _ = write!(text, "; thread {}", waiters.join(", "));
    if futex.waiters.len() > NAMED {
        _ = write!(text, " and {} more", futex.waiters.len() - NAMED);
    }
    ("waits for", text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn lines(ipc: &Value, pid: i32, fd: &str) -> (Vec<(&'static str, String)>, Option<String>) {
        let process = |pid: i32| {
            json!({
                "cgroup": [], "cmdline": [], "command": "", "distributed_environment": {}, "exe": null,
                "identity": format!("{pid}:5"), "matches_pattern": false, "pid": pid, "ppid": 1,
                "proc": { "file_descriptors": [], "io": {}, "kernel_stack": [], "limits": [], "schedstat": null,
                          "status": {}, "syscall": null, "threads": [], "wchan": null },
                "pyspy": null, "python_candidate": false, "start_time_ticks": 5, "state": "S",
            })
        };
        let document = json!({
            "capture": { "completed_at": "2026-11-29T14:41:03Z", "duration_ms": 1.0,
                         "id": "20261129T144103.000000Z-000002", "sequence": 2,
                         "started_at": "2026-11-29T14:41:03Z" },
            "cgroup": { "files": {}, "version": 2 }, "collector_version": "0.1.0",
            "filesystem": { "shared_memory": { "available": false, "path": "/dev/shm" } },
            "focus_files": [], "ipc": ipc, "processes": [process(100), process(101)],
            "schema_version": "1.1",
            "task": { "attempt": 0, "host": "vm", "node": "vm", "pathspec": "train/x" },
        });
        let snapshot: Snapshot = serde_json::from_value(document).unwrap();
        let mut processes = snapshot.processes.iter();
        let process = processes.find(|process| process.pid == pid).unwrap();
        (
            locks(&snapshot, process.identity),
            descriptor(&snapshot, process, fd),
        )
    }

    fn owner(pid: i32, fd: &str, end: Option<&str>) -> Value {
        let mut owner = json!({ "fd": fd, "identity": format!("{pid}:5"), "pid": pid });
        if let Some(end) = end {
            owner["end"] = json!(end);
        }
        owner
    }

    #[test]
    fn a_pipe_says_how_full_it_is_and_who_has_the_other_end() {
        let ipc = json!({ "endpoints": [{
            "kind": "pipe", "target": "pipe:[7]",
            "owners": [owner(100, "4", Some("write")), owner(101, "3", Some("read"))],
            "pipe": { "bytes_waiting": 65536, "capacity_bytes": 65536, "has_writers": false },
        }] });
        let (_, words) = lines(&ipc, 100, "4");
        assert_eq!(
            words.as_deref(),
            Some("write end, 64.0 KiB of 64.0 KiB, no writer is left; other end: 101 fd 3")
        );
        assert_eq!(lines(&json!({ "endpoints": [] }), 100, "4").1, None);
    }

    #[test]
    fn a_socket_says_what_waits_in_it_and_names_its_peer() {
        let ipc = json!({ "endpoints": [
            { "kind": "tcp", "owners": [owner(100, "4", None)], "peer": "socket:[8]", "target": "socket:[7]",
              "tcp": { "local": "127.0.0.1:1", "receive_queue": 7, "remote": "127.0.0.1:2", "retransmits": 3,
                       "send_queue": 0, "state": "established" } },
            { "owners": [owner(101, "5", None)], "target": "socket:[8]" },
        ] });
        let (_, words) = lines(&ipc, 100, "4");
        assert_eq!(
            words.as_deref(),
            Some(
                "tcp 127.0.0.1:1 to 127.0.0.1:2, established, sent again 3 times, 7 B to read; peer: 101 fd 5"
            )
        );
    }

    #[test]
    fn locks_and_futexes_name_their_holders() {
        let ipc = json!({
            "endpoints": [],
            "futexes": [{ "address": "0x10", "identity": "101:5", "operation": "wait", "owner_source": "mutex_field",
                          "owner_tid": 102, "private": true, "value": 2, "waiters": [101, 103] }],
            "locks": [{ "access": "WRITE", "class": "FLOCK", "holder": "100:5", "holder_pid": 100, "owners": [],
                        "path": "/tmp/l", "start": 0,
                        "waiters": [{ "access": "WRITE", "identity": "101:5", "pid": 101 }] }],
        });
        let holds = (
            "holds",
            "FLOCK WRITE lock of /tmp/l, which 1 wait for".to_owned(),
        );
        assert_eq!(lines(&ipc, 100, "0").0, [holds]);
        let waits = [
            "FLOCK WRITE lock of /tmp/l, held by 100",
            "futex 0x10, a mutex that thread 102 holds; thread 101, 103",
        ];
        let waits = waits.map(|text| ("waits for", text.to_owned()));
        assert_eq!(lines(&ipc, 101, "0").0, waits);
    }
}
