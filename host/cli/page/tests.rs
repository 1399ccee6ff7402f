//! Pages of a hand-made snapshot: a launcher, two ranks of three, a zombie, and a kernel that refuses something.

use model::Snapshot;
use serde_json::{Value, json};

use super::{Heading, overview, process};
use crate::ui::Ui;

pub(crate) const PLAIN: Ui = Ui {
    color: false,
    terminal: false,
    width: 100,
};

fn frame(name: &str, file: &str, line: u32) -> Value {
    json!({ "filename": file, "is_entry": false, "line": line, "locals": null, "module": null, "name": name,
            "short_filename": file })
}

fn trace(pid: i32, name: &str, owns_gil: bool, frames: &[Value]) -> Value {
    json!({ "active": owns_gil, "frames": frames, "os_thread_id": pid, "owns_gil": owns_gil, "pid": pid,
            "process_info": null, "thread_id": 1, "thread_name": name })
}

pub(crate) fn a_process(
    pid: i32,
    ppid: i32,
    state: char,
    cmdline: &[&str],
    rss: Option<u64>,
    wchan: &str,
) -> Value {
    json!({
        "cgroup": [], "cmdline": cmdline, "command": cmdline.join(" "), "distributed_environment": {}, "exe": null,
        "identity": format!("{pid}:5"), "matches_pattern": false, "pid": pid, "ppid": ppid,
        "memory": rss.map(|rss| json!({ "rss_bytes": rss })),
        "proc": { "file_descriptors": [{ "fd": "0", "target": "/dev/null" }], "io": {}, "kernel_stack": [], "limits": [],
                  "schedstat": null, "status": { "Name": "python3" }, "stime_ticks": 20, "syscall": null,
                  "threads": [{ "comm": "python3", "kernel_stack": [], "state": state, "syscall": "202 0x0", "tid": pid,
                                "wchan": wchan }],
                  "utime_ticks": 400, "wchan": wchan },
        "python_candidate": true, "start_time_ticks": 5, "state": state,
    })
}

pub(crate) fn snapshot() -> Snapshot {
    let mut rank_0 = a_process(
        101,
        100,
        'S',
        &["/usr/bin/python3", "train.py"],
        Some(240 << 20),
        "futex_do_wait",
    );
    rank_0["pyspy"] = json!({ "source": "embedded", "traces": [
        trace(101, "MainThread", false, &[
            frame("all_reduce", "/job/comm.py", 41), frame("step", "/job/train.py", 88),
            frame("main", "/job/train.py", 120), frame("<module>", "/job/train.py", 130)]),
        trace(999, "prefetch", true, &[frame("run", "/job/data.py", 7)]),
    ] });
    rank_0["distributed_environment"] = json!({ "RANK": "0" });
    let annotation = |target: Value, key: &str, value: Value| json!({ "key": key, "plugin": "torchrun-ranks", "target": target, "value": value });
    let document = json!({
        "annotations": [
            annotation(json!({ "process": "101:5" }), "rank", json!({ "number": 0.0 })),
            annotation(json!({ "process": "101:5" }), "role", json!({ "text": "rank" })),
            annotation(json!({ "process": "101:5" }), "group", json!({ "text": "default" })),
            annotation(json!({ "process": "102:5" }), "rank", json!({ "number": 1.0 })),
            annotation(json!({ "process": "102:5" }), "role", json!({ "text": "rank" })),
            annotation(json!({ "process": "102:5" }), "group", json!({ "text": "default" })),
            annotation(json!({ "process": "100:5" }), "role", json!({ "text": "launcher" })),
            annotation(json!({ "group": "default" }), "world-size", json!({ "number": 3.0 })),
            annotation(json!({ "group": "default" }), "missing-ranks", json!({ "text": "2" })),
        ],
        "capture": { "completed_at": "2026-11-29T14:41:03.043208Z", "duration_ms": 43.208,
                     "id": "20261129T144103.000000Z-000002", "missed_cycles": 1, "sequence": 2,
                     "started_at": "2026-11-29T14:41:03Z", "trigger": "interval" },
        "cgroup": { "files": {}, "version": 2 },
        "collector_version": "0.1.0",
        "filesystem": { "shared_memory": { "available": false, "path": "/dev/shm" } },
        "findings": [{ "evidence": [], "kind": "missing-ranks", "message": "rank 2 is missing", "plugin": "torchrun-ranks",
                       "severity": "warning", "target": { "group": "default" } }],
        "focus_files": [],
        "gaps": [
            { "code": "timed_out", "count": 1, "detail": "no answer within 25 s", "process": "102:5", "what": "python_stack" },
            { "code": "denied", "count": 2, "process": "101:5", "what": "task/*/stack", "remedy": "add CAP_SYS_ADMIN" },
            { "code": "denied", "count": 1, "process": "102:5", "what": "task/*/stack", "remedy": "add CAP_SYS_ADMIN" },
        ],
        "ipc": { "endpoints": [] },
        "machine": { "clock_ticks_per_second": 100, "page_size_bytes": 4096 },
        "plugins": [{ "annotations": 0, "findings": 0, "instance": "mine", "message": "boom\u{1b}[2J", "outcome": "trapped" }],
        "processes": [
            a_process(100, 1, 'S', &["python3", "launch.py"], Some(12 << 20), "do_wait"),
            rank_0,
            a_process(102, 100, 'D', &["/usr/bin/python3", "train.py"], Some(241 << 20), "fuse_wait"),
            a_process(103, 101, 'Z', &[], None, "0"),
        ],
        "schema_version": "1.1",
        "task": { "attempt": 0, "host": "vm", "node": "vm", "pathspec": "train/x" },
    });
    serde_json::from_value(document).unwrap()
}

#[test]
fn the_page_shows_ranks_states_stacks_and_what_is_missing() {
    let heading = Heading {
        earlier: None,
        position: Some((3, 12)),
        other_nodes: vec!["other".to_owned()],
        clocks: vec![("other".to_owned(), "its clock is 1h00m00s ahead".to_owned())],
    };
    insta::assert_snapshot!(overview(&snapshot(), &heading, PLAIN), @r#"
    train/x  attempt 0  node vm  snapshot 3 of 12 (by interval)
    2026-11-29 14:41:03 UTC  4 processes, 4 Python, 1 with stacks  captured in 43 ms  1 cycle missed before it
    other nodes (--node): other
      other: its clock is 1h00m00s ahead
    group default: 2 ranks here of 3, missing: 2
    warning: rank 2 is missing

    PID  COMMAND              PART      STATE           RSS       CPU   DOING
    100  python3 launch.py    launcher  sleeping        12.0 MiB  4.2s  in the kernel: do_wait
    ├─ 101  python3 train.py  rank 0    sleeping        240 MiB   4.2s  all_reduce (comm.py:41) < step (train.py:88) < main (train.py:120) < <module> (train.py:130)
    │  └─ 103  [python3]                zombie          -         4.2s  ended; its parent 101 has not waited for it
    └─ 102  python3 train.py  rank 1    disk sleep (D)  241 MiB   4.2s  in the kernel: fuse_wait  [no Python stack: timed out]

    plugin mine: trapped: boom\u{1b}[2J

    Not seen:
      python_stack: timed out (no answer within 25 s); process 102
      task/*/stack: denied; processes 101, 102, 3 times
        to see it: add CAP_SYS_ADMIN
    "#);
}

#[test]
fn what_a_process_does_is_said_by_its_own_frames_first() {
    let mut snapshot = snapshot();
    let stacks = snapshot.processes[1].pyspy.as_mut().unwrap();
    let wait = frame("Condition.wait", "/usr/lib/python3.11/threading.py", 327);
    stacks.traces[0]
        .frames
        .insert(0, serde_json::from_value(wait).unwrap());
    let page = overview(&snapshot, &Heading::default(), PLAIN);
    assert!(
        page.contains("  all_reduce (comm.py:41) in Condition.wait < step (train.py:88) < "),
        "{page}"
    );
}

#[test]
fn a_terminal_gets_lines_that_fit() {
    let narrow = Ui {
        terminal: true,
        width: 60,
        ..PLAIN
    };
    let page = overview(&snapshot(), &Heading::default(), narrow);
    let tree: Vec<&str> = page
        .lines()
        .skip_while(|line| !line.starts_with("PID"))
        .take(5)
        .collect();
    assert!(
        tree.iter().all(|line| line.chars().count() <= 60),
        "{tree:#?}"
    );
}

#[test]
fn one_process_is_shown_in_full() {
    let snapshot = snapshot();
    insta::assert_snapshot!(process(&snapshot, &snapshot.processes[1], None, PLAIN), @r#"
    process 101:5  rank 0
      command      /usr/bin/python3 train.py
      executable   ?
      state        sleeping (S)
      parent       100
      memory       240 MiB resident
      cpu          4.0s user, 0.2s system
      environment  RANK=0
      note         group = default
      note         rank = 0
      note         role = rank

    thread 101  MainThread  sleeping in futex_do_wait  system call 202
        all_reduce (comm.py:41)  /job/comm.py
        step (train.py:88)  /job/train.py
        main (train.py:120)  /job/train.py
        <module> (train.py:130)  /job/train.py

    Python thread prefetch (kernel thread unknown)  holds the GIL
        run (data.py:7)  /job/data.py

    descriptors
          0  /dev/null

    Not seen:
      task/*/stack: denied; process 101, 2 times
        to see it: add CAP_SYS_ADMIN
    "#);
}

#[test]
fn the_tree_is_in_the_order_of_age_where_numbers_of_processes_began_anew() {
    let mut snapshot = snapshot();
    // The launcher has the highest number, the rank that began first a higher one than the other; a helper began in its tick.
    for (process, pid, ppid, start) in [
        (0, 900, 1, 5),
        (1, 302, 900, 6),
        (2, 301, 900, 7),
        (3, 300, 302, 6),
    ] {
        let process = &mut snapshot.processes[process];
        (process.pid, process.ppid, process.start_time_ticks) = (pid, ppid, start);
        process.identity = format!("{pid}:{start}").parse().unwrap();
    }
    snapshot.processes.reverse();
    let page = overview(&snapshot, &Heading::default(), PLAIN);
    let tree = page.lines().skip_while(|line| !line.starts_with("PID"));
    let pids = tree.skip(1).take(4).map(|line| {
        line.split("  ")
            .find(|word| word.ends_with(char::is_numeric))
    });
    let pids: Vec<&str> = pids.map(Option::unwrap).collect();
    assert_eq!(pids, ["900", "├─ 302", "└─ 300", "└─ 301"]);
    assert_eq!(snapshot.by_age(), [3, 2, 0, 1]);
}

#[test]
fn parents_in_a_circle_do_not_hang_the_page() {
    let mut snapshot = snapshot();
    snapshot.processes[0].ppid = 101;
    snapshot.processes[1].ppid = 100;
    assert!(overview(&snapshot, &Heading::default(), PLAIN).contains("PID"));
}

#[test]
fn what_a_rank_counts_is_shown_with_how_fast_it_grows() {
    let step = |value: u64| {
        json!([{ "file": "/job/train.py", "function": "train", "line": 88, "name": "step", "thread_id": 101,
                 "value": value }])
    };
    let with = |value: u64| {
        let mut snapshot = snapshot();
        snapshot.processes[1].steps = serde_json::from_value(step(value)).unwrap();
        snapshot
    };
    let (mut earlier, now) = (with(200), with(1_204));
    let elapsed = std::time::Duration::from_secs(20);
    let began = earlier.capture.started_at.as_microseconds() - 20_000_000;
    earlier.capture.started_at = model::Timestamp::from_microseconds(began).unwrap();
    assert_eq!(
        now.capture.started_at.since(earlier.capture.started_at),
        elapsed
    );
    let heading = Heading {
        earlier: Some(&earlier),
        ..Heading::default()
    };
    let page = overview(&now, &heading, PLAIN);
    let row = |pid: &str| page.lines().find(|line| line.contains(pid)).unwrap();
    assert!(row("PID  COMMAND").contains("  STEP "), "{page}");
    assert!(
        row("101  python3").contains("  step 1204, 50.2/s  "),
        "{page}"
    );
    let alone = overview(&now, &Heading::default(), PLAIN);
    assert!(alone.contains("  step 1204  "), "{alone}");
    let page = process(&now, &now.processes[1], Some(&earlier), PLAIN);
    let words = "step         step = 1204, 50.2/s over 20.0 s, in train (train.py:88)";
    assert!(page.contains(words), "{page}");
}

/// A frame as function, file and line.
pub(crate) type Place<'a> = (&'a str, &'a str, u32);

/// Where a training loop calls from, …
pub(crate) const OUTER: [Place<'_>; 2] = [
    ("step", "/job/train.py", 88),
    ("main", "/job/train.py", 120),
];
/// … a rank in its collective, …
pub(crate) const REDUCE: [Place<'_>; 3] = [("all_reduce", "/job/comm.py", 41), OUTER[0], OUTER[1]];
/// … and one that still loads.
pub(crate) const LOAD: [Place<'_>; 3] = [("load", "/job/data.py", 7), OUTER[0], OUTER[1]];

/// A job whose ranks are at these stacks, innermost first.
pub(crate) fn job(ranks: &[&[Place<'_>]]) -> Snapshot {
    let mut job = snapshot();
    job.annotations.clear();
    job.gaps.clear();
    let ranks = (0..).zip(ranks).map(|(rank, frames)| {
        let pid = 200 + rank;
        let mut process = a_process(pid, 100, 'S', &["python3", "train.py"], None, "0");
        let frames: Vec<Value> = frames
            .iter()
            .map(|(name, file, line)| frame(name, file, *line))
            .collect();
        process["pyspy"] =
            json!({ "source": "own", "traces": [trace(pid, "MainThread", false, &frames)] });
        process["distributed_environment"] = json!({ "RANK": rank.to_string() });
        serde_json::from_value(process).unwrap()
    });
    job.processes = ranks.collect();
    job
}
