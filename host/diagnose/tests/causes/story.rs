//! Snapshots of jobs that nobody ran, in a few words: a story says for each instant what there is.

use std::collections::BTreeMap;

use model::{
    Annotation, CallTimeout, Capture, Cgroup, CgroupCpu, CgroupLevel, CgroupMemory, Endpoint,
    EndpointKind, FileDescriptor, FileLock, Filesystem, Frame, Futex, Ipc, Limit, LockWaiter,
    MachineFacts, MemoryFacts, Mount, MountPurpose, Owner, PipeEnd, PipeFacts, ProcFacts, Process,
    ProcessId, SCHEMA_VERSION, ScopeFacts, ScopeKind, SharedFile, SharedMapping, Snapshot,
    SnapshotId, StackSourceName, Stacks, Step, SystemCall, Target, Task, TcpFacts, Thread,
    Timestamp, Trace, Trigger, UnixFacts, Value,
};
use taskscope_diagnose::{Cause, History, State, Verdict, judge};

use super::{lacking, wrapped};

const BEGIN: i64 = 1_796_000_000_000_000;
const SECOND: i64 = 1_000_000;

/// One instant of a story.
pub(crate) struct Shot {
    pub(crate) snapshot: Snapshot,
}

/// Snapshots a second apart.
pub(crate) fn story(count: u32, tell: impl Fn(u32, &mut Shot)) -> Vec<Snapshot> {
    story_of("node-0", count, tell)
}

/// The same on a named node.
pub(crate) fn story_of(node: &str, count: u32, tell: impl Fn(u32, &mut Shot)) -> Vec<Snapshot> {
    let shots = (0..count).map(|instant| {
        let mut shot = Shot {
            snapshot: empty(node, instant),
        };
        tell(instant, &mut shot);
        shot.snapshot.processes.sort_by_key(|process| process.pid);
        shot.snapshot
    });
    shots.collect()
}

/// The answer for one node. Every pointer in it resolves to the value that it cites.
pub(crate) fn ask(snapshots: &[Snapshot]) -> Verdict {
    ask_all(&[snapshots])
}

/// The answer for several nodes.
pub(crate) fn ask_all(nodes: &[&[Snapshot]]) -> Verdict {
    let histories: Vec<History<'_>> = nodes
        .iter()
        .map(|snapshots| History {
            snapshots: snapshots.iter().collect(),
            ends: Vec::new(),
        })
        .collect();
    let verdict = judge(&histories).verdict;
    let again = judge(&histories).verdict;
    assert_eq!(
        serde_json::to_string(&verdict).unwrap(),
        serde_json::to_string(&again).unwrap()
    );
    let backwards: Vec<History<'_>> = histories.into_iter().rev().collect();
    let again = judge(&backwards).verdict;
    assert_eq!(again, verdict, "the order of the nodes does not matter");
    resolves(&verdict, nodes);
    wrapped::is_the_same(&verdict, nodes);
    verdict
}

fn resolves(verdict: &Verdict, nodes: &[&[Snapshot]]) {
    for evidence in &verdict.evidence {
        let of_node = nodes.iter().copied().flatten();
        let mut snapshots = of_node.filter(|it| it.task.node == evidence.node);
        let snapshot = snapshots.find(|it| it.capture.id.to_string() == evidence.snapshot);
        let document = serde_json::to_value(snapshot.expect("evidence names a snapshot")).unwrap();
        assert_eq!(
            document.pointer(&evidence.path),
            Some(&evidence.value),
            "{}",
            evidence.path
        );
    }
    for finding in &verdict.findings {
        resolves(finding, nodes);
    }
}

/// Asserts how a task is and why, and who is to blame.
#[track_caller]
pub(crate) fn expect(
    snapshots: &[Snapshot],
    state: State,
    cause: Cause,
    culprit: Option<i32>,
) -> Verdict {
    let verdict = ask(snapshots);
    let named = verdict.culprit.as_ref().map(|culprit| culprit.pid);
    assert_eq!(
        (verdict.verdict, verdict.cause, named),
        (state, cause, culprit),
        "{}",
        serde_json::to_string_pretty(&verdict).unwrap()
    );
    if culprit.is_some() {
        assert!(!verdict.evidence.is_empty(), "{}", verdict.summary);
        lacking::any_one(snapshots, &verdict);
    }
    verdict
}

fn empty(node: &str, instant: u32) -> Snapshot {
    let at = Timestamp::from_microseconds(BEGIN + i64::from(instant) * SECOND).unwrap();
    let sequence = u64::from(instant);
    Snapshot {
        annotations: Vec::new(),
        capture: Capture {
            completed_at: at,
            cpu_ms: None,
            duration_ms: 20.0,
            helper_count: None,
            id: SnapshotId {
                stamp: at,
                sequence,
            },
            interval_s: Some(1.0),
            missed_cycles: Some(0),
            sequence,
            spending: None,
            started_at: at,
            // What was before is not seen.
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
        processes: Vec::new(),
        schema_version: SCHEMA_VERSION.to_owned(),
        scope: Some(ScopeFacts {
            cgroup: None,
            kind: ScopeKind::Tree,
            root: identity(10),
        }),
        task: Task::new("story/one".parse().unwrap(), 0, node, node),
    }
}

pub(crate) fn identity(pid: i32) -> ProcessId {
    ProcessId {
        pid,
        start_time_ticks: 1000 + u64::try_from(pid).unwrap(),
    }
}

/// What a thread is at.
#[derive(Clone, Debug)]
pub(crate) struct Doing {
    pub(crate) call: SystemCall,
    frames: Vec<(String, String, i32)>,
    has_gil: bool,
    kernel: Option<String>,
    name: String,
    pub(crate) ran: u64,
    state: char,
    pub(crate) ticks: u64,
}

/// A thread in a system call.
pub(crate) fn call(name: &str) -> Doing {
    Doing {
        call: SystemCall {
            name: name.to_owned(),
            ..SystemCall::default()
        },
        frames: Vec::new(),
        has_gil: false,
        kernel: None,
        name: "thread".to_owned(),
        ran: 0,
        state: 'S',
        ticks: 0,
    }
}

/// One that reads from, or writes to, a descriptor.
pub(crate) fn on(name: &str, fd: i32, target: &str) -> Doing {
    let mut doing = call(name);
    doing.call.fd = Some(fd);
    doing.call.fd_target = Some(target.to_owned());
    doing
}

/// One that sleeps and looks again; it ran until `instant`.
pub(crate) fn polls(instant: u32) -> Doing {
    let mut doing = call("clock_nanosleep");
    doing.call.timeout = Some(CallTimeout::Set);
    doing.ran = u64::from(instant) * 10;
    doing
}

/// One that uses a processor all the time.
pub(crate) fn runs(instant: u32) -> Doing {
    let mut doing = call("");
    doing.state = 'R';
    doing.ran = u64::from(instant) * 50;
    doing.ticks = u64::from(instant) * 95;
    doing
}

/// One that waits for ever for a futex that only its process knows.
pub(crate) fn futex(address: &str) -> Doing {
    let mut doing = call("futex");
    doing.call.address = Some(address.to_owned());
    doing.call.operation = Some("FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME".to_owned());
    doing.call.timeout = Some(CallTimeout::Infinite);
    doing
}

/// The same for one that processes share.
pub(crate) fn semaphore(address: &str) -> Doing {
    let mut doing = futex(address);
    doing.call.operation = Some("FUTEX_WAIT_BITSET|FUTEX_CLOCK_REALTIME".to_owned());
    doing
}

/// One that waits for a child.
pub(crate) fn waits_for(pid: i32) -> Doing {
    let mut doing = call("wait4");
    doing.call.waits_for = Some(pid);
    doing
}

impl Doing {
    /// Where it is in Python, innermost first: `function file line`.
    pub(crate) fn at(mut self, frames: &[&str]) -> Doing {
        self.frames = frames
            .iter()
            .map(|text| {
                let parts: Vec<&str> = text.split(' ').collect();
                (
                    parts[0].to_owned(),
                    parts[1].to_owned(),
                    parts[2].parse().unwrap(),
                )
            })
            .collect();
        self
    }

    pub(crate) fn named(mut self, name: &str) -> Doing {
        name.clone_into(&mut self.name);
        self
    }

    pub(crate) fn in_kernel(mut self, function: &str, state: char) -> Doing {
        self.kernel = Some(function.to_owned());
        self.state = state;
        self
    }

    pub(crate) fn of_path(mut self, path: &str) -> Doing {
        self.call.path = Some(path.to_owned());
        self.call.fd = Some(-100);
        self
    }

    pub(crate) fn for_a_while(mut self) -> Doing {
        self.call.timeout = Some(CallTimeout::Set);
        self
    }

    pub(crate) fn of_fds(mut self, fds: &[i32]) -> Doing {
        self.call.fds = fds.to_vec();
        self
    }

    pub(crate) fn ran_until(mut self, instant: u32) -> Doing {
        self.ran = u64::from(instant);
        self
    }

    pub(crate) fn with_gil(mut self) -> Doing {
        self.has_gil = true;
        self
    }
}

impl Shot {
    /// A process whose main thread does this. The parent of the first is not watched.
    pub(crate) fn process(&mut self, pid: i32, parent: i32, doing: &Doing) -> &mut Process {
        let mut process = blank(pid, parent);
        add_thread(&mut process, pid, doing);
        self.snapshot.processes.push(process);
        self.snapshot.processes.last_mut().unwrap()
    }

    /// The same, of a rank.
    pub(crate) fn rank(&mut self, rank: u32, pid: i32, doing: &Doing) -> &mut Process {
        let said = |key: &str, value: Value| Annotation {
            key: key.to_owned(),
            plugin: "ranks".to_owned(),
            target: Target::Process(identity(pid)),
            value,
        };
        self.snapshot
            .annotations
            .push(said("group", Value::Text("g:29500".to_owned())));
        self.snapshot
            .annotations
            .push(said("rank", Value::Number(f64::from(rank))));
        let process = self.process(pid, 10, doing);
        let environment = &mut process.distributed_environment;
        environment.insert("RANK".to_owned(), rank.to_string());
        process
    }

    /// One that has ended and is not asked for.
    pub(crate) fn zombie(&mut self, pid: i32, parent: i32, code: Option<u8>, signal: Option<u8>) {
        let mut process = blank(pid, parent);
        process.state = 'Z';
        process.proc.exit_code = code;
        process.proc.exit_signal = signal;
        self.snapshot.processes.push(process);
    }

    pub(crate) fn pipe(&mut self, target: &str, readers: &[i32], writers: &[i32], bytes: u64) {
        let mut owners: Vec<Owner> = Vec::new();
        owners.extend(readers.iter().map(|pid| owner(*pid, Some(PipeEnd::Read))));
        owners.extend(writers.iter().map(|pid| owner(*pid, Some(PipeEnd::Write))));
        self.snapshot.ipc.endpoints.push(Endpoint {
            kind: Some(EndpointKind::Pipe),
            owners,
            pipe: Some(PipeFacts {
                bytes_waiting: bytes,
                capacity_bytes: 65536,
                has_readers: None,
                has_writers: None,
            }),
            target: target.to_owned(),
            ..Endpoint::default()
        });
    }

    /// A TCP socket of `pids`; the peer's target where the task holds that as well.
    pub(crate) fn tcp(
        &mut self,
        target: &str,
        pids: &[i32],
        facts: (&str, &str, &str),
        peer: Option<&str>,
    ) {
        let (local, remote, state) = facts;
        self.snapshot.ipc.endpoints.push(Endpoint {
            kind: Some(EndpointKind::Tcp),
            owners: pids.iter().map(|pid| owner(*pid, None)).collect(),
            peer: peer.map(str::to_owned),
            target: target.to_owned(),
            tcp: Some(TcpFacts {
                local: local.to_owned(),
                remote: remote.to_owned(),
                state: state.to_owned(),
                ..TcpFacts::default()
            }),
            ..Endpoint::default()
        });
    }

    /// Two ends of a unix connection.
    pub(crate) fn unix(&mut self, one: (&str, i32), other: (&str, i32)) {
        for ((target, pid), (peer, _)) in [(one, other), (other, one)] {
            self.snapshot.ipc.endpoints.push(Endpoint {
                kind: Some(EndpointKind::Unix),
                owners: vec![owner(pid, None)],
                peer: Some(peer.to_owned()),
                target: target.to_owned(),
                unix: Some(UnixFacts {
                    socket_type: "stream".to_owned(),
                    state: "established".to_owned(),
                    ..UnixFacts::default()
                }),
                ..Endpoint::default()
            });
        }
    }

    pub(crate) fn lock(&mut self, path: &str, holder: i32, waiters: &[i32]) {
        let waiters = waiters.iter().map(|pid| LockWaiter {
            access: "WRITE".to_owned(),
            identity: Some(identity(*pid)),
            pid: Some(*pid),
        });
        self.snapshot.ipc.locks.push(FileLock {
            access: "WRITE".to_owned(),
            class: "FLOCK".to_owned(),
            holder: Some(identity(holder)),
            holder_pid: Some(holder),
            path: Some(path.to_owned()),
            waiters: waiters.collect(),
            ..FileLock::default()
        });
    }

    /// A futex that processes share, who waits for it, and who maps the memory that it is in.
    pub(crate) fn shared(&mut self, address: &str, waiters: &[i32], mapped: &[i32]) {
        for pid in waiters {
            self.snapshot.ipc.futexes.push(Futex {
                address: address.to_owned(),
                expected: Some(0),
                identity: identity(*pid),
                operation: "wait_bitset".to_owned(),
                owner_source: None,
                owner_tid: None,
                private: false,
                value: Some(0),
                waiters: vec![*pid],
            });
        }
        let mapped = mapped.iter().map(|pid| SharedMapping {
            bytes: 4096,
            identity: identity(*pid),
        });
        self.snapshot.ipc.shared_memory.push(SharedFile {
            inode: Some(7),
            mapped: mapped.collect(),
            name: "/dev/shm/sem.x (deleted)".to_owned(),
            ..SharedFile::default()
        });
    }

    pub(crate) fn mount(
        &mut self,
        path: &str,
        purpose: MountPurpose,
        available: u64,
        total: u64,
    ) -> &mut Mount {
        self.snapshot.filesystem.mounts.push(Mount {
            bytes_available: Some(available),
            bytes_free: Some(available),
            bytes_total: Some(total),
            inodes_free: Some(1000),
            inodes_total: Some(2000),
            is_read_only: Some(false),
            mount_point: Some(path.to_owned()),
            path: path.to_owned(),
            purpose,
            source: None,
            kind: None,
        });
        self.snapshot.filesystem.mounts.last_mut().unwrap()
    }

    pub(crate) fn cgroup(&mut self) -> &mut CgroupLevel {
        self.snapshot.cgroup.chain.push(CgroupLevel {
            cpu: Some(CgroupCpu::default()),
            hierarchy: "unified".to_owned(),
            memory: Some(CgroupMemory {
                limit_bytes: Limit::At(1 << 30),
                ..CgroupMemory::default()
            }),
            path: "/sys/fs/cgroup/job".to_owned(),
            ..CgroupLevel::default()
        });
        self.snapshot.cgroup.chain.last_mut().unwrap()
    }
}

fn owner(pid: i32, end: Option<PipeEnd>) -> Owner {
    Owner {
        end,
        fd: "3".to_owned(),
        identity: identity(pid),
        pid,
    }
}

fn blank(pid: i32, parent: i32) -> Process {
    let cmdline = vec!["python".to_owned(), "job.py".to_owned()];
    Process {
        cgroup: vec!["0::/job".to_owned()],
        command: cmdline.join(" "),
        cmdline,
        cmdline_cut: None,
        distributed_environment: BTreeMap::new(),
        environment_source: None,
        exe: Some("/usr/bin/python3".to_owned()),
        exec_generation: Some(0),
        identity: identity(pid),
        matches_pattern: false,
        memory: Some(MemoryFacts {
            rss_bytes: 1 << 20,
            ..MemoryFacts::default()
        }),
        namespaces: None,
        pid,
        ppid: parent,
        proc: ProcFacts {
            limits: vec![
                "Max open files            1024                 4096                 files"
                    .to_owned(),
            ],
            minor_faults: Some(0),
            stime_ticks: Some(0),
            utime_ticks: Some(0),
            ..ProcFacts::default()
        },
        pyspy: None,
        python_candidate: true,
        redactions: Vec::new(),
        start_time_ticks: identity(pid).start_time_ticks,
        state: 'S',
        steps: Vec::new(),
    }
}

/// Adds a thread to a process; its first is the main thread.
pub(crate) fn add_thread(process: &mut Process, tid: i32, doing: &Doing) {
    if tid == process.pid {
        process.state = doing.state;
        process.proc.wchan = Some(doing.kernel.clone().unwrap_or_else(|| "0".to_owned()));
    }
    let ticks = process.proc.utime_ticks.unwrap_or(0) + doing.ticks;
    process.proc.utime_ticks = Some(ticks);
    process.proc.threads.push(Thread {
        call: (!doing.call.name.is_empty()).then(|| doing.call.clone()),
        comm: Some("python".to_owned()),
        // A tick is a hundredth of a second; now and then another one has the processor.
        schedstat: Some(format!(
            "{} {} {}",
            doing.ran * 1000 + doing.ticks * 10_000_000,
            doing.ticks * 10_000_000 / 19,
            doing.ran
        )),
        state: Some(doing.state),
        tid,
        wchan: Some(
            doing
                .kernel
                .clone()
                .unwrap_or_else(|| "futex_do_wait".to_owned()),
        ),
        ..Thread::default()
    });
    if doing.frames.is_empty() {
        return;
    }
    let frames = doing.frames.iter().map(|(name, file, line)| {
        let frame = Frame {
            filename: file.clone(),
            is_entry: true,
            is_shim_entry: false,
            line: *line,
            locals: None,
            module: None,
            name: name.clone(),
            short_filename: None,
        };
        frame.into()
    });
    let stacks = process.pyspy.get_or_insert_with(|| Stacks {
        source: StackSourceName::Own,
        traces: Vec::new(),
        unchanged_since: None,
        version: None,
    });
    stacks.traces.push(Trace {
        active: doing.state == 'R',
        frames: frames.collect(),
        os_thread_id: u64::try_from(tid).ok(),
        owns_gil: doing.has_gil,
        pid: process.pid,
        process_info: None,
        thread_id: u64::try_from(tid).unwrap(),
        thread_name: Some(doing.name.clone()),
    });
}

/// A number that the main thread of a process counts.
pub(crate) fn counts(process: &mut Process, function: &str, value: u32) {
    process.steps.push(Step {
        file: "train.py".to_owned(),
        function: function.to_owned(),
        line: 1,
        name: "step".to_owned(),
        thread_id: u64::try_from(process.pid).ok(),
        value: value.into(),
    });
}

pub(crate) fn descriptor(process: &mut Process, fd: i32, target: &str) {
    process.proc.file_descriptors.push(FileDescriptor {
        fd: fd.to_string(),
        info: None,
        target: target.to_owned(),
    });
}

/// The ranks of the victims, in order.
pub(crate) fn ranks(verdict: &Verdict) -> Vec<u64> {
    verdict
        .victims
        .iter()
        .filter_map(|victim| victim.rank)
        .collect()
}

/// The PIDs of the victims, in order.
pub(crate) fn pids(verdict: &Verdict) -> Vec<i32> {
    verdict.victims.iter().map(|victim| victim.pid).collect()
}
