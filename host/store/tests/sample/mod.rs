//! Snapshots for tests: one with every field filled, so that nothing is forgotten when a field is added.

use std::collections::BTreeMap;

use model::{
    Annotation, Capture, Cgroup, Endpoint, Evidence, FileDescriptor, Filesystem, Finding, Frame,
    Gap, GapCode, Ipc, LocalVariable, MachineFacts, MemoryFacts, OutcomeKind, Owner, PluginOutcome,
    ProcFacts, Process, ProcessId, Redaction, SCHEMA_VERSION, ScopeFacts, ScopeKind, Severity,
    SharedMemory, Snapshot, SnapshotId, StackSourceName, Stacks, Target, Task, Thread, Timestamp,
    Trace, Trigger, Value,
};

/// 2026-11-30T01:33:20Z.
const START_MICROSECONDS: i64 = 1_796_000_000_000_000;

/// Returns the time of snapshot `sequence` of [`snapshot`].
pub(crate) fn time(sequence: u64) -> Timestamp {
    let seconds = i64::try_from(sequence).expect("tests count to a few");
    Timestamp::from_microseconds(START_MICROSECONDS + seconds * 1_000_000).expect("in range")
}

/// Returns the task of [`snapshot`].
pub(crate) fn task() -> Task {
    Task::new(
        "Flow/17/train/3".parse().expect("a task path"),
        0,
        "node-a",
        "host-a",
    )
}

/// Returns a snapshot with every field filled.
pub(crate) fn snapshot(sequence: u64) -> Snapshot {
    let id = ProcessId {
        pid: 4711,
        start_time_ticks: 56_786,
    };
    Snapshot {
        annotations: annotations(id),
        capture: Capture {
            completed_at: time(sequence),
            cpu_ms: Some(12.5),
            duration_ms: 57.515,
            id: SnapshotId {
                stamp: time(sequence),
                sequence,
            },
            interval_s: Some(120.0),
            missed_cycles: Some(2),
            sequence,
            started_at: time(sequence),
            trigger: Some(Trigger::Interval),
        },
        cgroup: Cgroup {
            files: map(&[("memory.current", "1"), ("cpu.max", "max 100000")]),
            host_pressure: map(&[("cpu", "some avg10=21.00")]),
            path: Some("/sys/fs/cgroup/job".to_owned()),
            version: 2,
        },
        collector_version: "0.1.0".to_owned(),
        filesystem: filesystem(),
        findings: findings(id),
        focus_files: vec!["train.py".to_owned()],
        gaps: vec![
            Gap::new("task/*/stack", GapCode::Denied)
                .of(id)
                .with_detail("EACCES")
                .with_remedy("add CAP_SYS_ADMIN"),
        ],
        ipc: Ipc {
            endpoints: vec![Endpoint {
                owners: vec![Owner {
                    fd: "1".to_owned(),
                    identity: id,
                    pid: id.pid,
                }],
                target: "pipe:[51628]".to_owned(),
            }],
        },
        machine: MachineFacts {
            boot_id: Some("b0".to_owned()),
            clock_ticks_per_second: 100,
            cpu_count: Some(2),
            kernel_release: Some("6.1".to_owned()),
            load_average: Some(["0.1", "0.2", "0.3"].map(str::to_owned)),
            memory_available_bytes: Some(1),
            memory_total_bytes: Some(2),
            page_size_bytes: 4096,
        },
        plugins: vec![PluginOutcome {
            annotations: 3,
            duration_us: Some(120),
            findings: 1,
            instance: "ranks".to_owned(),
            memory_bytes: Some(65_536),
            message: Some("nothing".to_owned()),
            outcome: OutcomeKind::Ok,
            version: Some("1".to_owned()),
        }],
        processes: vec![process(id, 2, 3)],
        schema_version: SCHEMA_VERSION.to_owned(),
        scope: Some(ScopeFacts {
            cgroup: Some("/job".to_owned()),
            kind: ScopeKind::Cgroup,
            root: id,
        }),
        task: task(),
    }
}

/// Returns a process with `threads` threads whose Python stacks have `depth` frames.
pub(crate) fn process(id: ProcessId, threads: i32, depth: usize) -> Process {
    let tids = id.pid..id.pid + threads;
    Process {
        cgroup: vec!["0::/job".to_owned()],
        cmdline: vec!["python".to_owned(), "tr\u{e4}in.py".to_owned()],
        command: "python tr\u{e4}in.py".to_owned(),
        distributed_environment: map(&[("RANK", "0"), ("WORLD_SIZE", "4")]),
        exe: Some("/usr/bin/python3.11".to_owned()),
        identity: id,
        matches_pattern: true,
        memory: Some(MemoryFacts {
            peak_rss_bytes: Some(1),
            rss_anon_bytes: Some(2),
            rss_bytes: 3,
            rss_file_bytes: Some(4),
            rss_shmem_bytes: Some(5),
            swap_bytes: Some(6),
        }),
        pid: id.pid,
        ppid: 1,
        proc: proc_facts(tids.clone().map(thread).collect()),
        pyspy: Some(Stacks {
            source: StackSourceName::Embedded,
            traces: tids.map(|tid| trace(id.pid, tid, depth)).collect(),
        }),
        python_candidate: true,
        redactions: vec![Redaction {
            pattern: "api-key".to_owned(),
            place: "cmdline/1".to_owned(),
        }],
        start_time_ticks: id.start_time_ticks,
        state: 'S',
    }
}

fn proc_facts(threads: Vec<Thread>) -> ProcFacts {
    ProcFacts {
        cstime_ticks: Some(1),
        cutime_ticks: Some(2),
        file_descriptors: vec![FileDescriptor {
            fd: "1".to_owned(),
            info: Some(map(&[("pos", "0"), ("flags", "01")])),
            target: "pipe:[51628]".to_owned(),
        }],
        io: map(&[("rchar", "1"), ("wchar", "2")]),
        kernel_stack: vec!["[<0>] hrtimer_nanosleep+0xb5/0x130".to_owned()],
        limits: vec!["Max cpu time              unlimited".to_owned()],
        schedstat: Some("220288793 159820367 52".to_owned()),
        status: map(&[("Name", "python"), ("State", "S (sleeping)")]),
        stime_ticks: Some(3),
        syscall: Some("230 0x1 0x1".to_owned()),
        threads,
        utime_ticks: Some(4),
        wchan: Some("hrtimer_nanosleep".to_owned()),
    }
}

fn thread(tid: i32) -> Thread {
    Thread {
        comm: Some("python".to_owned()),
        kernel_stack: vec!["[<0>] futex_wait+0x1/0x2".to_owned()],
        state: Some('S'),
        stime_ticks: Some(1),
        syscall: Some("running".to_owned()),
        tid,
        utime_ticks: Some(2),
        wchan: Some("0".to_owned()),
    }
}

fn trace(pid: i32, tid: i32, depth: usize) -> Trace {
    let frame = |level: usize| Frame {
        filename: format!("/opt/venv/lib/python3.11/site-packages/package/module_{level}.py"),
        is_entry: level == 0,
        is_shim_entry: false,
        line: i32::try_from(level).expect("a shallow stack") + tid,
        locals: Some(vec![LocalVariable {
            addr: 140_000_000_000_000,
            arg: false,
            name: "step".to_owned(),
            repr: Some("17".to_owned()),
        }]),
        module: None,
        name: format!("Class.method_{level}"),
        short_filename: Some(format!("module_{level}.py")),
    };
    Trace {
        active: false,
        frames: (0..depth).map(frame).collect(),
        os_thread_id: Some(u64::try_from(tid).expect("a thread id")),
        owns_gil: false,
        pid,
        process_info: None,
        thread_id: 139_876_875_611_008,
        thread_name: Some("MainThread \u{1f40d}".to_owned()),
    }
}

fn annotations(id: ProcessId) -> Vec<Annotation> {
    let targets = [
        Target::Snapshot,
        Target::Process(id),
        Target::Thread {
            process: id,
            tid: 4711,
        },
        Target::Stack(1),
        Target::Frame(2),
        Target::Group("g".to_owned()),
    ];
    let values = [
        Value::Text("0".to_owned()),
        Value::Number(0.25),
        Value::Flag(true),
    ];
    let pairs = targets.into_iter().zip(values.into_iter().cycle());
    pairs
        .map(|(target, value)| Annotation {
            key: "rank".to_owned(),
            plugin: "ranks".to_owned(),
            target,
            value,
        })
        .collect()
}

fn findings(id: ProcessId) -> Vec<Finding> {
    vec![Finding {
        evidence: vec![Evidence {
            pointer: "/processes/0/state".to_owned(),
            value: "\"S\"".to_owned(),
        }],
        kind: "missing-ranks".to_owned(),
        message: "Ranks 1 to 3 are missing.".to_owned(),
        plugin: Some("ranks".to_owned()),
        severity: Severity::Warning,
        target: Target::Process(id),
    }]
}

fn filesystem() -> Filesystem {
    Filesystem {
        shared_memory: SharedMemory {
            available: true,
            block_size: Some(4096),
            blocks: Some(4),
            blocks_available: Some(3),
            blocks_free: Some(2),
            bytes_available: Some(12_288),
            bytes_total: Some(16_384),
            path: "/dev/shm".to_owned(),
        },
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}
