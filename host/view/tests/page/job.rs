//! Recorded runs, written by the collector's own writer: ranks that meet in a collective, one of which stays behind.

use std::path::Path;
use std::time::Duration;

use model::{
    CallTimeout, Ending, Frame, Obituary, ObituarySegment, ProcessId, Sample, SharedFrame,
    Snapshot, SystemCall, Target, Task, Timestamp, Unseen,
};
use monitor::{About, Begin, Moment, Monitor, Owner, Segment};
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
    if job.stuck.is_none() || sequence < 3 {
        snapshot.findings.clear();
    }
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

/// Puts beside the snapshots of the first node what a collector keeps there: two samples, a stage, and the ends of a helper that
/// failed and of the main process, which crashed.
pub(crate) fn put_records(directory: &Path, job: Job) {
    let (first, last) = (snapshot(job, 0, 0), snapshot(job, 0, job.snapshots - 1));
    let (from, to) = (first.capture.started_at, last.capture.completed_at);
    let root = first.scope.unwrap().root;
    let ends = ObituarySegment {
        obituaries: vec![
            obituary(
                root,
                0,
                to,
                Ending::Killed {
                    core_dumped: false,
                    signal: 11,
                },
            ),
            obituary(ProcessId { pid: 77, ..root }, 1, to, Ending::Exited(1)),
        ],
        schema_version: model::SCHEMA_VERSION.to_owned(),
        unseen: Unseen::default(),
    };
    put_record(
        directory,
        &last.task,
        &format!("obituaries/{}-00000001.json.gz", to.compact()),
        &ends,
    );
    let samples: Vec<Sample> = [0, 1].map(|second| sample_of(root, from, second)).into();
    let segment = Segment::of(&samples, last.task.clone(), 100).unwrap();
    put_record(
        directory,
        &last.task,
        &format!("samples/{}-00000002.json.gz", from.compact()),
        &segment,
    );
    let report = report(root, from, &last.task);
    put_record(directory, &last.task, "report.json", &report);
}

/// Puts a record at its name below the place of a node.
pub(crate) fn put_record(
    directory: &Path,
    task: &Task,
    name: &str,
    document: &impl serde::Serialize,
) {
    use std::io::Write as _;
    let path = directory.join(Place::of(task).to_string()).join(name);
    let text = serde_json::to_vec(document).unwrap();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    if path.extension().is_none_or(|it| it != "gz") {
        return std::fs::write(path, text).unwrap();
    }
    let file = std::fs::File::create(path).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    encoder.write_all(&text).unwrap();
    encoder.finish().unwrap();
}

/// How a process ended, about which nothing else is known.
pub(crate) fn obituary(
    process: ProcessId,
    order: u64,
    ended_at: Timestamp,
    ending: Ending,
) -> Obituary {
    Obituary {
        circumstances: Vec::new(),
        cpu: None,
        elapsed_ms: 7000.0,
        ended_at,
        ended_after: None,
        ending,
        last_snapshot: None,
        memory: None,
        name: "train.py".to_owned(),
        order,
        ppid: 1,
        process,
        rank: None,
        role: None,
        stack: None,
        stack_at: None,
    }
}

fn sample_of(root: ProcessId, from: Timestamp, second: u8) -> Sample {
    Sample {
        at: from.after(Duration::from_secs(second.into())),
        cgroup: None,
        cpu_ms: Some(1.0),
        duration_ms: 2.0,
        elapsed_seconds: second.into(),
        gaps: Vec::new(),
        gpus: Vec::new(),
        machine: model::MachineSample::default(),
        processes: vec![model::ProcessSample {
            rss_bytes: Some(1 << 20),
            ..model::ProcessSample::of(root)
        }],
        root,
    }
}

fn report(root: ProcessId, started_at: Timestamp, task: &Task) -> serde_json::Value {
    let mut monitor = Monitor::new(About {
        clock_ticks_per_second: 100,
        collector_version: "0".to_owned(),
        detailed_memory: false,
        log_interval: None,
        max_samples: 3,
        platform: "Linux".to_owned(),
        root,
        sample_interval: 1.0,
        started_at,
        task: task.clone(),
    });
    let owner = Owner {
        pid: root.pid,
        process: Some(root),
    };
    let begin = Begin {
        name: "fit".to_owned(),
        ..Begin::default()
    };
    let at = started_at.after(Duration::from_secs(2));
    monitor.stages.begin(
        owner,
        begin,
        Moment {
            at,
            elapsed_seconds: 2.0,
        },
    );
    monitor
        .report(at.after(Duration::from_secs(1)), 3.0)
        .document()
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
