//! What is kept of a snapshot for judging later ones: who was there, what each thread did and how much it had used. Who held
//! which end of what is asked of the newest snapshot alone.

use model::{Filesystem, Ipc, ProcFacts, Process, Snapshot, Thread};

/// Returns the part of a snapshot that judging later ones needs.
pub(super) fn kept(snapshot: &Snapshot) -> Snapshot {
    let annotations = snapshot.annotations.iter();
    let placing = annotations.filter(|it| it.key == "rank" || it.key == "group");
    Snapshot {
        annotations: placing.cloned().collect(),
        capture: snapshot.capture.clone(),
        cgroup: snapshot.cgroup.clone(),
        collector_version: String::new(),
        filesystem: Filesystem {
            mounts: Vec::new(),
            ..snapshot.filesystem.clone()
        },
        findings: Vec::new(),
        focus_files: Vec::new(),
        gaps: Vec::new(),
        ipc: Ipc::default(),
        machine: snapshot.machine.clone(),
        namespaces: Vec::new(),
        plugins: Vec::new(),
        processes: snapshot.processes.iter().map(process).collect(),
        schema_version: snapshot.schema_version.clone(),
        scope: snapshot.scope.clone(),
        task: snapshot.task.clone(),
    }
}

fn process(process: &Process) -> Process {
    let placing = ["RANK", "WORLD_SIZE"];
    let environment = process.distributed_environment.iter();
    Process {
        cgroup: process.cgroup.clone(),
        cmdline: process.cmdline.clone(),
        cmdline_cut: None,
        command: String::new(),
        distributed_environment: environment
            .filter(|(name, _)| placing.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        environment_source: None,
        exe: process.exe.clone(),
        exec_generation: process.exec_generation,
        identity: process.identity,
        matches_pattern: process.matches_pattern,
        memory: process.memory.clone(),
        namespaces: None,
        pid: process.pid,
        ppid: process.ppid,
        proc: facts(&process.proc),
        pyspy: process.pyspy.clone(),
        python_candidate: process.python_candidate,
        redactions: Vec::new(),
        start_time_ticks: process.start_time_ticks,
        state: process.state,
        steps: process.steps.clone(),
    }
}

fn facts(facts: &ProcFacts) -> ProcFacts {
    let bytes = facts.io.iter();
    ProcFacts {
        exit_code: facts.exit_code,
        exit_signal: facts.exit_signal,
        io: bytes
            .filter(|(name, _)| ["rchar", "syscw", "wchar"].contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        major_faults: facts.major_faults,
        minor_faults: facts.minor_faults,
        process_group: facts.process_group,
        schedstat: facts.schedstat.clone(),
        stime_ticks: facts.stime_ticks,
        threads: facts.threads.iter().map(thread).collect(),
        utime_ticks: facts.utime_ticks,
        wchan: facts.wchan.clone(),
        ..ProcFacts::default()
    }
}

fn thread(thread: &Thread) -> Thread {
    // The kernel's stack is asked for where no signal reaches the thread alone, and is most of what a thread weighs.
    let kernel_stack = match thread.state {
        Some('D') => thread.kernel_stack.clone(),
        _ => Vec::new(),
    };
    Thread {
        call: thread.call.clone(),
        kernel_stack,
        schedstat: thread.schedstat.clone(),
        state: thread.state,
        stime_ticks: thread.stime_ticks,
        tid: thread.tid,
        unchanged_since: thread.unchanged_since,
        utime_ticks: thread.utime_ticks,
        wchan: thread.wchan.clone(),
        ..Thread::default()
    }
}
