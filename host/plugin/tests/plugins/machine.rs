//! A hand-built snapshot: torchrun (PID 100) and its ranks (PID 200, 201, …), one thread each.

use std::collections::BTreeMap;

use model::{
    Capture, Cgroup, Filesystem, Frame, Ipc, MachineFacts, MemoryFacts, ProcFacts, Process,
    ProcessId, Snapshot, SnapshotId, StackSourceName, Stacks, Task, Thread, Timestamp, Trace,
    Trigger,
};

pub(crate) fn snapshot(ranks: i32) -> Snapshot {
    let stamp = Timestamp::from_microseconds(1_796_000_000_000_000).unwrap();
    let mut processes = vec![process(100, 1, &["torchrun", "train.py"], &[])];
    for rank in 0..ranks {
        let (rank, world) = (rank.to_string(), ranks.to_string());
        let environment = [
            ("RANK", rank.as_str()),
            ("LOCAL_RANK", &rank),
            ("WORLD_SIZE", &world),
            ("LOCAL_WORLD_SIZE", &world),
            ("MASTER_ADDR", "127.0.0.1"),
            ("MASTER_PORT", "29500"),
            ("SECRET", "hunter2"),
        ];
        let pid = 200 + rank.parse::<i32>().unwrap();
        let mut process = process(pid, 100, &["python3", "train.py"], &environment);
        process.pyspy = Some(Stacks {
            source: StackSourceName::Embedded,
            traces: vec![trace(pid)],
            unchanged_since: None,
            version: None,
        });
        process.python_candidate = true;
        processes.push(process);
    }
    Snapshot {
        annotations: Vec::new(),
        capture: Capture {
            completed_at: stamp,
            cpu_ms: None,
            duration_ms: 1.5,
            helper_count: None,
            id: SnapshotId { stamp, sequence: 7 },
            interval_s: None,
            missed_cycles: None,
            sequence: 7,
            spending: None,
            started_at: stamp,
            trigger: Some(Trigger::Interval),
        },
        cgroup: Cgroup::default(),
        collector_version: "0.1.0".to_owned(),
        filesystem: Filesystem::default(),
        findings: Vec::new(),
        focus_files: Vec::new(),
        gaps: Vec::new(),
        ipc: Ipc::default(),
        machine: MachineFacts {
            clock_ticks_per_second: 100,
            ..MachineFacts::default()
        },
        namespaces: Vec::new(),
        plugins: Vec::new(),
        processes,
        schema_version: model::SCHEMA_VERSION.to_owned(),
        scope: None,
        task: Task::new("train/1".parse().unwrap(), 0, "n0", "host"),
    }
}

fn process(pid: i32, ppid: i32, cmdline: &[&str], environment: &[(&str, &str)]) -> Process {
    let start_time_ticks = u64::try_from(pid).unwrap() * 10;
    let environment = environment
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()));
    Process {
        cgroup: Vec::new(),
        cmdline: cmdline
            .iter()
            .map(|&argument| argument.to_owned())
            .collect(),
        cmdline_cut: None,
        command: cmdline.join(" "),
        distributed_environment: environment.collect::<BTreeMap<_, _>>(),
        environment_source: None,
        exe: None,
        exec_generation: None,
        identity: ProcessId {
            pid,
            start_time_ticks,
        },
        matches_pattern: false,
        memory: Some(MemoryFacts {
            rss_bytes: 1 << 20,
            ..MemoryFacts::default()
        }),
        namespaces: None,
        pid,
        ppid,
        proc: ProcFacts {
            threads: vec![thread(pid)],
            ..ProcFacts::default()
        },
        pyspy: None,
        python_candidate: false,
        redactions: Vec::new(),
        start_time_ticks,
        state: 'S',
        steps: Vec::new(),
    }
}

fn thread(tid: i32) -> Thread {
    Thread {
        comm: Some("python3".to_owned()),
        kernel_stack: Vec::new(),
        state: Some('S'),
        stime_ticks: Some(1),
        syscall: None,
        tid,
        utime_ticks: Some(2),
        wchan: Some("futex_do_wait".to_owned()),
        ..Thread::default()
    }
}

fn trace(pid: i32) -> Trace {
    let frame = |name: &str, line| Frame {
        filename: "/app/train.py".to_owned(),
        is_entry: false,
        is_shim_entry: false,
        line,
        locals: None,
        module: None,
        name: name.to_owned(),
        short_filename: None,
    };
    Trace {
        active: false,
        frames: vec![frame("train_step", 12).into(), frame("<module>", 40).into()],
        os_thread_id: u64::try_from(pid).ok(),
        owns_gil: false,
        pid,
        process_info: None,
        thread_id: 1,
        thread_name: Some("MainThread".to_owned()),
    }
}
