//! What is kept of the last few snapshots for judging later ones: who was there, what each thread did and how much it had
//! used. Who held which end of what is asked of the newest snapshot alone.
//!
//! What tells of a process is asked of the newest snapshot that shows it; older ones only tell whether it moved, and that within a
//! window. So of a process that is still there only that is kept of them, and before the window nothing.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use model::{Filesystem, Ipc, ProcFacts, Process, ProcessId, Snapshot, Target, Thread};

use crate::case::PATIENCE;
use crate::motion::Tracks;

/// Snapshots that show all who were there: as many as a window has before the newest, one that may be too close to it, and one
/// that shows for how long something was as it is.
const WHOLE: usize = PATIENCE + 2;
/// Snapshots that are kept: before those, some that show who was seen in them for the last time.
const KEPT: usize = 2 * PATIENCE + 2;

/// The last few snapshots of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// The oldest first.
    snapshots: VecDeque<Snapshot>,
    /// What those before the whole ones have shown, and those that are not kept any more.
    pub(super) tracks: Tracks,
}

impl Kept {
    /// Returns the snapshots, the oldest first.
    pub(super) fn snapshots(&self) -> impl Iterator<Item = &Snapshot> {
        self.snapshots.iter()
    }

    /// Returns which of them is the first that shows all who were there.
    pub(super) fn whole_from(&self) -> usize {
        self.snapshots.len().saturating_sub(WHOLE)
    }

    /// Keeps what is needed of a snapshot, in place of the last where that is closer to the one before than `least`.
    pub(super) fn keep(&mut self, snapshot: &Snapshot, least: Duration) {
        let mut newest = self.snapshots.iter().rev().map(|it| it.capture.started_at);
        match (newest.next(), newest.next()) {
            (Some(last), Some(before)) if last.since(before) < least => {
                self.snapshots.pop_back();
                self.snapshots.push_back(reduced(snapshot));
            }
            _ => {
                self.thin();
                self.snapshots.push_back(reduced(snapshot));
                self.fold();
            }
        }
    }

    /// Now that the last snapshot stays: of the one before, and whoever is in both, only what tells whether something moved.
    fn thin(&mut self) {
        let Some(before) = self.snapshots.len().checked_sub(2) else {
            return;
        };
        let last = identities(&self.snapshots[before + 1]);
        let before = self.snapshots[before].processes.iter_mut();
        for process in before.filter(|it| last.contains(&it.identity)) {
            process.cgroup = Vec::new();
            process.cmdline = Vec::new();
            process.distributed_environment.clear();
            process.exe = None;
        }
    }

    /// The newest that is none of the whole ones any more: those who are in the next one go into their tracks.
    fn fold(&mut self) {
        let Some(old) = self.whole_from().checked_sub(1) else {
            return;
        };
        let next = identities(&self.snapshots[old + 1]);
        let old = &mut self.snapshots[old];
        self.tracks.see(&old.capture, &old.processes);
        old.processes.retain(|it| !next.contains(&it.identity));
        old.processes.shrink_to_fit();
        old.annotations
            .retain(|it| !matches!(it.target, Target::Process(it) if next.contains(&it)));
        old.annotations.shrink_to_fit();
        if self.snapshots.len() > KEPT {
            self.snapshots.pop_front();
        }
    }
}

fn identities(snapshot: &Snapshot) -> HashSet<ProcessId> {
    snapshot.processes.iter().map(|it| it.identity).collect()
}

/// Returns the part of a snapshot that judging later ones needs.
fn reduced(snapshot: &Snapshot) -> Snapshot {
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
