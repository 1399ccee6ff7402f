//! What judging costs: a job of many ranks of which one is behind, and the same stacks merged. Prints one row of a table.
//!
//! Usage: judge RANKS THREADS FRAMES SNAPSHOTS

use std::fs;
use std::io::Write as _;
use std::time::Duration;

use model::{Process, Snapshot};
use serde_json::{Value, json};
use taskscope_diagnose::{Cause, History, Level, Merged, Selection, judge};

/// Ranks on one node.
const OF_NODE: usize = 64;

fn main() -> std::io::Result<()> {
    let numbers: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse().ok())
        .collect();
    let &[ranks, threads, frames, count] = numbers.as_slice() else {
        return writeln!(
            std::io::stderr(),
            "usage: judge RANKS THREADS FRAMES SNAPSHOTS"
        );
    };
    let nodes: Vec<Vec<Snapshot>> = (0..ranks.div_ceil(OF_NODE))
        .map(|node| {
            let of_node = node * OF_NODE..ranks.min((node + 1) * OF_NODE);
            (0..count)
                .map(|instant| snapshot(node, of_node.clone(), (threads, frames), instant))
                .collect()
        })
        .collect();
    let histories: Vec<History<'_>> = nodes
        .iter()
        .map(|snapshots| History {
            snapshots: snapshots.iter().collect(),
            ends: Vec::new(),
        })
        .collect();
    let before = cpu();
    let verdict = judge(&histories).verdict;
    let judged = cpu().saturating_sub(before);
    let newest: Vec<&Snapshot> = nodes
        .iter()
        .filter_map(|snapshots| snapshots.last())
        .collect();
    let before = cpu();
    let selection = Selection {
        level: Level::Line,
        ..Selection::default()
    };
    let merged = Merged::of(&newest, &selection);
    let merging = cpu().saturating_sub(before);
    let all: Vec<&Snapshot> = nodes.iter().flatten().collect();
    let before = cpu();
    let over_time = Merged::of(&all, &selection);
    let over = cpu().saturating_sub(before);
    let is_whole = over_time.classes.len() == merged.classes.len();
    let found = if verdict.cause == Cause::RankBehind && is_whole {
        "found"
    } else {
        "missed"
    };
    writeln!(
        std::io::stdout(),
        "| {ranks} | {threads} | {frames} | {count} | {:.0} | {} | {:.0} | {:.0} | {} | {} | {found} |",
        judged.as_secs_f64() * 1e3,
        ranks * threads,
        merging.as_secs_f64() * 1e3,
        over.as_secs_f64() * 1e3,
        merged.classes.len(),
        peak_mib(),
    )
}

/// One node at one instant: all ranks stand in a collective but the last of the job's first node.
fn snapshot(
    node: usize,
    ranks: std::ops::Range<usize>,
    (threads, frames): (usize, usize),
    instant: usize,
) -> Snapshot {
    let stamp = format!(
        "2026-11-29T14:{:02}:{:02}.000000Z",
        instant * 2 / 60,
        instant * 2 % 60
    );
    let id = format!(
        "20261129T14{:02}{:02}.000000Z-{instant:06}",
        instant * 2 / 60,
        instant * 2 % 60
    );
    let name = format!("node-{node}");
    let processes: Vec<Value> = ranks.map(|rank| process(rank, threads, frames)).collect();
    let document = json!({
        "capture": {"completed_at": stamp, "duration_ms": 20.0, "id": id, "interval_s": 2.0, "sequence": instant, "started_at": stamp},
        "cgroup": {"files": {}, "path": null, "version": 2},
        "collector_version": "0",
        "filesystem": {"shared_memory": {"available": false, "path": "/dev/shm"}},
        "focus_files": [],
        "ipc": {"endpoints": []},
        "machine": {"boot_id": null, "clock_ticks_per_second": 100, "cpu_count": 8, "kernel_release": null, "load_average": null,
            "memory_available_bytes": null, "memory_total_bytes": null, "page_size_bytes": 4096},
        "processes": [],
        "schema_version": "1.1",
        "task": {"attempt": 0, "host": name, "node": name, "pathspec": "bench/judge"},
    });
    let mut snapshot: Snapshot =
        serde_json::from_value(document).expect("the fields that a snapshot has to have");
    snapshot.processes = processes
        .into_iter()
        .map(|process| {
            serde_json::from_value::<Process>(process)
                .expect("the fields that a process has to have")
        })
        .collect();
    snapshot
}

fn process(rank: usize, threads: usize, frames: usize) -> Value {
    let pid = 1000 + rank * 100;
    let is_behind = rank == 5;
    let stack = |thread: usize| -> Vec<Value> {
        let frame = |depth: usize| {
            let name = match (depth, thread, is_behind) {
                (0, 0, false) => "all_reduce".to_owned(),
                (0, 0, true) => "load".to_owned(),
                _ => format!("function_{depth}_{thread}"),
            };
            json!({"filename": format!("/srv/app/module_{depth}.py"), "line": 10 + depth, "locals": null, "module": null,
                "name": name, "short_filename": null})
        };
        (0..frames).map(frame).collect()
    };
    let traces: Vec<Value> = (0..threads)
        .map(|thread| {
            json!({"active": false, "frames": stack(thread), "os_thread_id": pid + thread, "owns_gil": false, "pid": pid,
                "process_info": null, "thread_id": pid + thread, "thread_name": "t"})
        })
        .collect();
    let rows: Vec<Value> = (0..threads)
        .map(|thread| {
            json!({"call": {"name": "futex", "address": "0x1", "operation": "FUTEX_WAIT_PRIVATE", "timeout": "infinite"},
                "comm": "python", "kernel_stack": [], "schedstat": "5 0 1", "state": "S", "syscall": null, "tid": pid + thread,
                "wchan": "futex_do_wait"})
        })
        .collect();
    json!({
        "cgroup": [], "cmdline": ["python", "train.py"], "command": "python train.py",
        "distributed_environment": {"RANK": rank.to_string()}, "exe": "/usr/bin/python3",
        "identity": format!("{pid}:1"), "matches_pattern": false, "pid": pid, "ppid": 1, "python_candidate": true,
        "proc": {"file_descriptors": [], "io": {}, "kernel_stack": [], "limits": [], "schedstat": null, "status": {},
            "stime_ticks": 0, "syscall": null, "threads": rows, "utime_ticks": 0, "wchan": null},
        "pyspy": {"source": "own", "traces": traces}, "start_time_ticks": 1, "state": "S",
    })
}

/// User and system time of this process so far.
fn cpu() -> Duration {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// The largest RSS so far, MiB: the snapshots themselves included.
fn peak_mib() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
