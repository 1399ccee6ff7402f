//! Recorded runs, written by the collector's own writer: ranks that meet in a collective, one of which stays behind.

use std::path::Path;
use std::time::Duration;

use model::{CallTimeout, Frame, ProcessId, SharedFrame, Snapshot, SystemCall, Target};
use store::{Location, Place, SpoolSettings, Store, Writer};

use crate::sample;

/// A job of ranks on nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) nodes: u64,
    /// Of each node.
    pub(crate) ranks: u64,
    pub(crate) snapshots: u64,
    /// The rank that stays in `load_batch` from the third snapshot on.
    pub(crate) stuck: Option<u64>,
}

/// Writes the job into a store in `directory`.
pub(crate) fn write(directory: &Path, job: Job) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let location = Location::parse(".", directory).unwrap();
    let store = Store::open(&location).unwrap();
    for node in 0..job.nodes {
        runtime.block_on(write_node(&store, directory, job, node));
    }
}

async fn write_node(store: &Store, directory: &Path, job: Job, node: u64) {
    let task = snapshot(job, node, 0).task;
    let spool = SpoolSettings {
        directory: directory.join(".spool"),
        max_size_bytes: 1 << 30,
    };
    let mut writer = Writer::open(
        Some(store.clone()),
        Place::of(&task),
        task,
        Vec::new(),
        spool,
    )
    .await;
    for sequence in 0..job.snapshots {
        let snapshot = snapshot(job, node, sequence);
        writer.write(&snapshot, snapshot.capture.completed_at).await;
    }
    let summary = writer.close(Duration::from_mins(1)).await;
    assert_eq!(summary.stored, job.snapshots);
}

/// Returns one snapshot of one node.
pub(crate) fn snapshot(job: Job, node: u64, sequence: u64) -> Snapshot {
    let mut snapshot = sample::snapshot(sequence);
    snapshot.task.node = format!("node-{node}");
    snapshot.task.host = snapshot.task.node.clone();
    snapshot
        .annotations
        .retain(|it| it.target == Target::Snapshot);
    snapshot.capture.interval_s = Some(1.0);
    snapshot.findings.clear();
    snapshot.gaps.clear();
    let ranks = node * job.ranks..(node + 1) * job.ranks;
    snapshot.processes = ranks.map(|rank| process(job, rank, sequence)).collect();
    snapshot
}

fn process(job: Job, rank: u64, sequence: u64) -> model::Process {
    let pid = 1000 + i32::try_from(rank).unwrap();
    let identity = ProcessId {
        pid,
        start_time_ticks: 100,
    };
    let mut process = sample::process(identity, 1, 1);
    let is_stuck = job.stuck == Some(rank) && sequence >= 2;
    let (function, line) = if is_stuck {
        ("load_batch", 13)
    } else {
        ("all_reduce", 90)
    };
    process.distributed_environment = [("RANK".to_owned(), rank.to_string())].into();
    process.steps.truncate(1);
    process.steps[0].thread_id = None;
    // All come to a stand: the others wait for the one that stays behind.
    let step = if job.stuck.is_some() {
        sequence.min(3)
    } else {
        sequence
    };
    process.steps[0].value = if is_stuck { 2 } else { step + 1 }.into();
    // It waits without an end.
    let thread = &mut process.proc.threads[0];
    thread.wchan = Some("futex_do_wait".to_owned());
    thread.call = Some(SystemCall {
        name: "futex".to_owned(),
        operation: Some("FUTEX_WAIT_PRIVATE".to_owned()),
        timeout: Some(CallTimeout::Infinite),
        ..SystemCall::default()
    });
    let stacks = process.pyspy.as_mut().unwrap();
    stacks.traces[0].os_thread_id = u64::try_from(pid).ok();
    stacks.traces[0].frames = vec![frame(function, line), frame("train", 40)];
    process
}

fn frame(name: &str, line: i32) -> SharedFrame {
    Frame {
        filename: "/srv/job/train.py".to_owned(),
        is_entry: false,
        is_shim_entry: false,
        line,
        locals: None,
        module: None,
        name: name.to_owned(),
        short_filename: None,
    }
    .into()
}

/// Puts one snapshot where it belongs, without the index that a writer keeps.
pub(crate) fn put(directory: &Path, snapshot: &Snapshot) {
    put_bytes(directory, snapshot, &store::encode(snapshot).unwrap());
}

/// Puts bytes where a snapshot belongs.
pub(crate) fn put_bytes(directory: &Path, snapshot: &Snapshot, bytes: &[u8]) {
    let key = store::Key {
        place: Place::of(&snapshot.task),
        id: snapshot.capture.id,
    };
    let path = directory.join(key.to_string());
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}
