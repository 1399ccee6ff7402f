//! Snapshots for tests: one with every field filled, so that nothing is forgotten when a field is added.

use std::collections::BTreeMap;

use model::{
    Annotation, CallTimeout, Capture, Cgroup, Credentials, CutText, Detail, Endpoint, EndpointKind,
    EnvironmentSource, Eventfd, Evidence, FileDescriptor, FileLock, Filesystem, Finding, Frame,
    Futex, FutexOwnerSource, Gap, GapCode, Gpu, GpuProcess, GpuProcessKind, GpuTrouble, Ipc,
    LocalVariable, LockWaiter, MachineFacts, MemoryFacts, NamespaceSet, OtherCgroup, OutcomeKind,
    Owner, PipeEnd, PipeFacts, PluginOutcome, ProcFacts, Process, ProcessId, Redaction,
    SCHEMA_VERSION, Scheduling, SchedulingPolicy, ScopeFacts, ScopeKind, SeccompMode, Severity,
    SharedFile, SharedMapping, SharedMemory, SinkTally, Snapshot, SnapshotId, SocketFacts,
    Spending, StackSourceName, Stacks, Step, SystemCall, SysvKind, SysvObject, Target, Task,
    TcpFacts, Thread, Timestamp, Trace, Trigger, UnixFacts, Value,
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
            helper_count: Some(2),
            id: SnapshotId {
                stamp: time(sequence),
                sequence,
            },
            interval_s: Some(120.0),
            missed_cycles: Some(2),
            sequence,
            spending: Some(Spending {
                budget_percent: Some(1.0),
                detail: Detail::WithoutThreadDetail,
                longest_cycle_ms: Some(61.25),
                previous_snapshot_bytes: Some(4992),
                recent_percent: Some(0.5),
                used_percent: Some(0.25),
                wanted_interval_s: Some(120.0),
                written_bytes: 14_976,
            }),
            started_at: time(sequence),
            trigger: Some(Trigger::Interval),
        },
        cgroup: Cgroup {
            files: map(&[("memory.current", "1"), ("cpu.max", "max 100000")]),
            host_pressure: map(&[("cpu", "some avg10=21.00")]),
            others: vec![OtherCgroup {
                processes: vec![id],
                ..OtherCgroup::default()
            }],
            path: Some("/sys/fs/cgroup/job".to_owned()),
            version: 2,
            ..Cgroup::default()
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
                kind: Some(EndpointKind::Pipe),
                owners: vec![owner(id)],
                peer: Some("socket:[7]".to_owned()),
                pipe: Some(PipeFacts {
                    bytes_waiting: 65_536,
                    capacity_bytes: 65_536,
                    has_readers: Some(true),
                    has_writers: Some(false),
                }),
                socket: Some(SocketFacts {
                    drops: Some(1),
                    local: Some("127.0.0.1:631".to_owned()),
                    protocol: "udp".to_owned(),
                    receive_queue: Some(2),
                    remote: Some("0.0.0.0:0".to_owned()),
                    send_queue: Some(3),
                    state: Some("unconnected".to_owned()),
                }),
                target: "pipe:[51628]".to_owned(),
                tcp: Some(tcp()),
                unix: Some(UnixFacts {
                    path: Some("@name".to_owned()),
                    receive_queue: Some(1),
                    send_queue: Some(2),
                    socket_type: "stream".to_owned(),
                    state: "established".to_owned(),
                }),
            }],
            ..shared(id)
        },
        machine: MachineFacts {
            boot_id: Some("b0".to_owned()),
            clock_ticks_per_second: 100,
            cpu_count: Some(2),
            gpu_driver: Some("550.54.15".to_owned()),
            gpu_silent_since: Some(time(sequence)),
            gpus: vec![gpu(id)],
            kernel_release: Some("6.1".to_owned()),
            load_average: Some(["0.1", "0.2", "0.3"].map(str::to_owned)),
            memory_available_bytes: Some(1),
            memory_total_bytes: Some(2),
            page_size_bytes: 4096,
            ..MachineFacts::default()
        },
        namespaces: vec![NamespaceSet {
            cgroup: Some(1),
            ipc: Some(2),
            mnt: Some(3),
            net: Some(4),
            ours: true,
            pid: Some(5),
            user: Some(6),
            uts: Some(7),
        }],
        plugins: vec![PluginOutcome {
            annotations: 3,
            duration_us: Some(120),
            findings: 1,
            instance: "ranks".to_owned(),
            memory_bytes: Some(65_536),
            message: Some("nothing".to_owned()),
            outcome: OutcomeKind::Ok,
            sink: Some(SinkTally {
                delivered: 1,
                dropped: 1,
                last_dropped: Some("its queue is full".to_owned()),
                queued: 1,
                snapshots: 3,
            }),
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

fn owner(id: ProcessId) -> Owner {
    Owner {
        end: Some(PipeEnd::Write),
        fd: "1".to_owned(),
        identity: id,
        pid: id.pid,
    }
}

fn tcp() -> TcpFacts {
    TcpFacts {
        bytes_acknowledged: Some(4097),
        bytes_received: Some(8192),
        last_received_ms: Some(1),
        last_sent_ms: Some(2),
        local: "127.0.0.1:1".to_owned(),
        receive_queue: 3,
        remote: "127.0.0.1:2".to_owned(),
        retransmits: 4,
        send_queue: 5,
        state: "established".to_owned(),
        total_retransmits: Some(6),
    }
}

fn shared(id: ProcessId) -> Ipc {
    Ipc {
        endpoints: Vec::new(),
        eventfds: vec![Eventfd {
            count: 1,
            id: Some(2),
            owners: vec![owner(id)],
        }],
        futexes: vec![Futex {
            address: "0x7f0000001000".to_owned(),
            expected: Some(2),
            identity: id,
            operation: "wait".to_owned(),
            owner_source: Some(FutexOwnerSource::MutexField),
            owner_tid: Some(4711),
            private: true,
            value: Some(2),
            waiters: vec![4712],
        }],
        locks: vec![FileLock {
            access: "WRITE".to_owned(),
            class: "FLOCK".to_owned(),
            device: Some("fe:00".to_owned()),
            end: Some(9),
            holder: Some(id),
            holder_pid: Some(id.pid),
            inode: Some(3),
            owners: vec![owner(id)],
            path: Some("/tmp/lock".to_owned()),
            start: 0,
            waiters: vec![LockWaiter {
                access: "WRITE".to_owned(),
                identity: Some(id),
                pid: Some(id.pid),
            }],
        }],
        shared_memory: vec![SharedFile {
            inode: Some(4),
            mapped: vec![SharedMapping {
                bytes: 4096,
                identity: id,
            }],
            name: "/memfd:x (deleted)".to_owned(),
            owners: vec![owner(id)],
            size_bytes: Some(4096),
        }],
        sysv: vec![SysvObject {
            attached: Some(1),
            bytes: Some(4096),
            id: 5,
            key: 0,
            kind: SysvKind::SharedMemory,
            members: Some(1),
            users: vec![id],
        }],
    }
}

/// Returns a process with `threads` threads whose Python stacks have `depth` frames.
pub(crate) fn process(id: ProcessId, threads: i32, depth: usize) -> Process {
    let tids = id.pid..id.pid + threads;
    Process {
        cgroup: vec!["0::/job".to_owned()],
        cmdline: vec!["python".to_owned(), "tr\u{e4}in.py".to_owned()],
        cmdline_cut: Some(CutText {
            bytes: 70_000,
            hash: "cbf29ce484222325".to_owned(),
        }),
        command: "python tr\u{e4}in.py".to_owned(),
        distributed_environment: map(&[("RANK", "0"), ("WORLD_SIZE", "4")]),
        environment_source: Some(EnvironmentSource::FirstSight),
        exe: Some("/usr/bin/python3.11".to_owned()),
        exec_generation: Some(1),
        identity: id,
        matches_pattern: true,
        memory: Some(MemoryFacts {
            data_bytes: Some(7),
            hugetlb_bytes: Some(8),
            locked_bytes: Some(9),
            page_table_bytes: Some(10),
            peak_rss_bytes: Some(1),
            pinned_bytes: Some(11),
            pss_bytes: Some(12),
            rss_anon_bytes: Some(2),
            rss_bytes: 3,
            rss_file_bytes: Some(4),
            rss_shmem_bytes: Some(5),
            stack_bytes: Some(13),
            swap_bytes: Some(6),
            uss_bytes: Some(14),
            virtual_bytes: Some(15),
        }),
        namespaces: Some(0),
        pid: id.pid,
        ppid: 1,
        proc: proc_facts(tids.clone().map(thread).collect()),
        pyspy: Some(Stacks {
            source: StackSourceName::Embedded,
            traces: tids.map(|tid| trace(id.pid, tid, depth)).collect(),
            unchanged_since: Some(time(0)),
            version: Some("3.11.7".to_owned()),
        }),
        python_candidate: true,
        redactions: vec![Redaction {
            pattern: "api-key".to_owned(),
            place: "cmdline/1".to_owned(),
        }],
        start_time_ticks: id.start_time_ticks,
        state: 'S',
        steps: vec![Step {
            file: "/a/train.py".to_owned(),
            function: "train".to_owned(),
            line: 42,
            name: "step".to_owned(),
            thread_id: Some(7),
            value: 1_234.into(),
        }],
    }
}

fn proc_facts(threads: Vec<Thread>) -> ProcFacts {
    ProcFacts {
        allowed_cpus: Some("0-1".to_owned()),
        child_major_faults: Some(1),
        child_minor_faults: Some(2),
        core_dumping: Some(false),
        credentials: Some(Credentials {
            dumpable: Some(true),
            effective_gid: 1,
            effective_uid: 2,
            no_new_privs: Some(true),
            real_gid: 3,
            real_uid: 4,
            seccomp: Some(SeccompMode::Filter),
        }),
        cstime_ticks: Some(1),
        cutime_ticks: Some(2),
        exit_code: Some(3),
        exit_signal: Some(9),
        file_descriptors: vec![FileDescriptor {
            fd: "1".to_owned(),
            info: Some(map(&[("pos", "0"), ("flags", "01")])),
            target: "pipe:[51628]".to_owned(),
        }],
        foreground_group: Some(4711),
        io: map(&[("rchar", "1"), ("wchar", "2")]),
        kernel_stack: vec!["[<0>] hrtimer_nanosleep+0xb5/0x130".to_owned()],
        limits: vec!["Max cpu time              unlimited".to_owned()],
        major_faults: Some(3),
        minor_faults: Some(4),
        process_group: Some(4711),
        processor: Some(1),
        schedstat: Some("220288793 159820367 52".to_owned()),
        scheduling: Some(scheduling()),
        session: Some(4711),
        status: map(&[("Name", "python"), ("State", "S (sleeping)")]),
        stime_ticks: Some(3),
        syscall: Some("230 0x1 0x1".to_owned()),
        terminal: Some("pts/3".to_owned()),
        threads,
        utime_ticks: Some(4),
        wchan: Some("hrtimer_nanosleep".to_owned()),
    }
}

fn thread(tid: i32) -> Thread {
    Thread {
        call: Some(SystemCall {
            address: Some("0x7f2c8a0e5000".to_owned()),
            fd: Some(1),
            fd_target: Some("pipe:[51628]".to_owned()),
            fds: vec![1],
            name: "futex".to_owned(),
            operation: Some("FUTEX_WAIT_PRIVATE".to_owned()),
            path: Some("/data/fifo".to_owned()),
            timeout: Some(CallTimeout::Set),
            timeout_ms: Some(5),
            waits_for: Some(-1),
        }),
        comm: Some("python".to_owned()),
        comm_escaped: Some("python\\xff".to_owned()),
        kernel_stack: vec!["[<0>] futex_wait+0x1/0x2".to_owned()],
        major_faults: Some(1),
        minor_faults: Some(2),
        processor: Some(1),
        schedstat: Some("220288793 159820367 52".to_owned()),
        scheduling: Some(scheduling()),
        state: Some('S'),
        stime_ticks: Some(1),
        syscall: Some("running".to_owned()),
        tid,
        unchanged_since: Some(time(0)),
        utime_ticks: Some(2),
        wchan: Some("0".to_owned()),
    }
}

fn scheduling() -> Scheduling {
    Scheduling {
        nice: 5,
        policy: SchedulingPolicy::Fifo,
        priority: -51,
        realtime_priority: Some(50),
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
        frames: (0..depth).map(|level| frame(level).into()).collect(),
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

fn gpu(id: ProcessId) -> Gpu {
    Gpu {
        index: 1,
        is_mig_enabled: Some(false),
        memory_free_bytes: Some(1),
        memory_reserved_bytes: Some(2),
        memory_total_bytes: Some(3),
        memory_used_bytes: Some(4),
        memory_utilization_percent: Some(5),
        name: Some("NVIDIA H100".to_owned()),
        pci_bus_id: Some("00000000:65:00.0".to_owned()),
        performance_state: Some(0),
        power_milliwatts: Some(6),
        processes: vec![GpuProcess {
            identity: Some(id),
            kind: GpuProcessKind::Compute,
            memory_used_bytes: Some(7),
            pid: 8,
        }],
        temperature_celsius: Some(64),
        throttle_reasons: vec!["gpu_idle".to_owned()],
        trouble: Some(GpuTrouble::ResetRequired),
        utilization_percent: Some(97),
        uuid: Some("GPU-aaaa".to_owned()),
    }
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
        ..Filesystem::default()
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}
