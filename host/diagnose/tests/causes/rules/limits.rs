//! Rules about what is full, or used up.

use model::{Limit, MountPurpose, Pressure, Stall};

use super::Job;
use crate::story::{call, descriptor, polls, runs, story};

const COUNT: u32 = 6;
const GIB: u64 = 1 << 30;

/// Refuted: there is room.
pub(super) fn shared_memory(is_refuted: bool) -> Job {
    let available = if is_refuted { GIB } else { 0 };
    let snapshots = story(COUNT, |instant, shot| {
        let process = shot.process(10, 1, &polls(instant).at(&["share loader.py 20"]));
        descriptor(process, 5, "/dev/shm/batch-7");
        shot.mount("/dev/shm", MountPurpose::SharedMemory, available, 2 * GIB);
    });
    snapshots.into()
}

/// Refuted: there is room.
pub(super) fn disk(is_refuted: bool) -> Job {
    let available = if is_refuted { 50 * GIB } else { 0 };
    let snapshots = story(COUNT, |instant, shot| {
        let process = shot.process(10, 1, &polls(instant).at(&["save checkpoint.py 20"]));
        let calls = instant.to_string();
        process.proc.io.insert("syscw".to_owned(), calls);
        let purpose = MountPurpose::WorkingDirectory;
        shot.mount("/data", purpose, available, 100 * GIB);
    });
    snapshots.into()
}

/// Refuted: it may open more.
pub(super) fn descriptors(is_refuted: bool) -> Job {
    let limit = if is_refuted { 1024 } else { 16 };
    let snapshots = story(COUNT, |instant, shot| {
        let process = shot.process(10, 1, &polls(instant).at(&["accept server.py 8"]));
        process.proc.limits = vec![format!("Max open files  {limit}  {limit}  files")];
        for fd in 0..16 {
            descriptor(process, fd, "/data/x");
        }
    });
    snapshots.into()
}

/// Refuted: there is room below the limit.
pub(super) fn memory_gone(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |_, shot| {
        let waits = call("").in_kernel("mem_cgroup_oom_synchronize", 'S');
        shot.process(10, 1, &waits.at(&["load app.py 25"]));
        let memory = shot.cgroup().memory.as_mut().unwrap();
        memory.usage_bytes = Some(GIB);
        memory.under_oom = Some(!is_refuted);
    });
    snapshots.into()
}

/// Refuted: no time is lost.
pub(super) fn memory_pressure(is_refuted: bool) -> Job {
    let lost = Stall {
        avg10_percent: if is_refuted { 0.1 } else { 60.0 },
        ..Stall::default()
    };
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &runs(instant).at(&["main app.py 25"]));
        let level = shot.cgroup();
        let pressure = Pressure {
            full: Some(lost),
            some: Some(lost),
        };
        level.pressure.insert("memory".to_owned(), pressure);
        level.memory.as_mut().unwrap().usage_bytes = Some(GIB - 4096);
    });
    snapshots.into()
}

/// Refuted: most periods passed without that.
pub(super) fn throttled(is_refuted: bool) -> Job {
    let throttled = if is_refuted { 1 } else { 9 };
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &runs(instant).at(&["hash app.py 25"]));
        let cpu = shot.cgroup().cpu.as_mut().unwrap();
        cpu.quota_usec = Limit::At(4000);
        cpu.period_usec = Some(100_000);
        cpu.periods = Some(u64::from(instant) * 10);
        cpu.throttled_periods = Some(u64::from(instant) * throttled);
    });
    snapshots.into()
}
