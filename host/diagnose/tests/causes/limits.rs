//! Memory, shared memory, disks, descriptors, processors.

use model::{Limit, MemoryFacts, MountPurpose, Pressure, Snapshot, Stall};
use taskscope_diagnose::{Cause, State};

use crate::story::{ask, call, descriptor, expect, futex, on, pids, polls, runs, story, waits_for};

const COUNT: u32 = 6;
const GIB: u64 = 1 << 30;

#[test]
fn shared_memory_with_no_room_at_all_or_none_for_one_more() {
    for available in [0, 200_000] {
        let snapshots = story(COUNT, |instant, shot| {
            let process = shot.process(10, 1, &polls(instant).at(&["share loader.py 20"]));
            descriptor(process, 5, "/dev/shm/batch-7");
            shot.mount("/dev/shm", MountPurpose::SharedMemory, available, 2 << 20);
            shot.snapshot.ipc.shared_memory.push(model::SharedFile {
                name: "/dev/shm/batch-6".to_owned(),
                size_bytes: Some(300_000),
                ..model::SharedFile::default()
            });
        });
        expect(&snapshots, State::Hung, Cause::ShmFull, Some(10));
    }
}

#[test]
fn shared_memory_of_a_worker_that_the_main_process_waits_for() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &on("read", 3, "pipe:[1]").at(&["main train.py 3"]));
        let worker = shot.process(20, 10, &polls(instant).at(&["put loader.py 20"]));
        descriptor(worker, 5, "/dev/shm/torch_1");
        shot.pipe("pipe:[1]", &[10], &[20], 0);
        shot.mount("/dev/shm", MountPurpose::SharedMemory, 4096, 64 << 20);
    });
    let verdict = expect(&snapshots, State::Hung, Cause::ShmFull, Some(20));
    assert_eq!(pids(&verdict), [10]);
}

#[test]
fn a_job_that_gets_on_with_little_shared_memory_is_well() {
    let snapshots = story(COUNT, |instant, shot| {
        let process = shot.process(10, 1, &polls(instant).at(&["share loader.py 20"]));
        descriptor(process, 5, "/dev/shm/batch-7");
        crate::story::counts(process, "main", instant);
        shot.mount("/dev/shm", MountPurpose::SharedMemory, 0, 2 << 20);
    });
    assert_eq!(ask(&snapshots).verdict, State::Healthy);
}

#[test]
fn a_disk_without_room_a_temporary_folder_without_room_and_one_without_inodes() {
    let cases = [
        (MountPurpose::WorkingDirectory, 0, 100),
        (MountPurpose::Temporary, 4096, 100),
        (MountPurpose::WorkingDirectory, 50 * GIB, 0),
    ];
    for (purpose, available, inodes) in cases {
        let snapshots = story(COUNT, |instant, shot| {
            let process = shot.process(10, 1, &polls(instant).at(&["save checkpoint.py 20"]));
            let calls = instant.to_string();
            process.proc.io.insert("syscw".to_owned(), calls);
            let mount = shot.mount("/work", purpose, available, 100 * GIB);
            mount.inodes_free = Some(inodes);
        });
        expect(&snapshots, State::Hung, Cause::DiskFull, Some(10));
    }
}

#[test]
fn no_more_files_for_a_server_a_client_or_a_loader() {
    for frames in [
        "accept server.py 8",
        "connect client.py 3",
        "open loader.py 9",
    ] {
        let snapshots = story(COUNT, |instant, shot| {
            let process = shot.process(10, 1, &polls(instant).at(&[frames]));
            process.proc.limits = vec![
                "Max open files            16                   16                   files"
                    .to_owned(),
            ];
            for fd in 0..16 {
                descriptor(process, fd, "/data/x");
            }
        });
        expect(&snapshots, State::Hung, Cause::FdExhausted, Some(10));
    }
}

fn with_kills(instant: u32, shot: &mut crate::story::Shot) {
    let memory = shot.cgroup().memory.as_mut().unwrap();
    memory.oom_kills = Some(u64::from(instant >= 3));
    memory.usage_bytes = Some(GIB);
}

#[test]
fn a_worker_of_a_pool_was_killed_for_memory() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(
            10,
            1,
            &futex("0x1").at(&[
                "wait /usr/lib/python3.11/threading.py 320",
                "map /usr/lib/python3.11/multiprocessing/pool.py 367",
                "main app.py 25",
            ]),
        );
        if instant < 3 {
            shot.process(20, 10, &runs(instant).at(&["decode app.py 9"]));
        } else {
            shot.process(21, 10, &on("read", 3, "pipe:[1]").at(&["get jobs.py 5"]));
            shot.pipe("pipe:[1]", &[21], &[10], 0);
        }
        with_kills(instant, shot);
    });
    let verdict = expect(&snapshots, State::Hung, Cause::OutOfMemory, Some(20));
    assert_eq!(pids(&verdict), [10]);
}

#[test]
fn a_killed_child_that_nobody_asks_for() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["main app.py 25"]));
        if instant < 3 {
            shot.process(20, 10, &runs(instant).at(&["decode app.py 9"]));
        } else {
            shot.zombie(20, 10, None, Some(9));
        }
        with_kills(instant, shot);
    });
    expect(&snapshots, State::Hung, Cause::OutOfMemory, Some(20));
}

#[test]
fn a_rank_was_killed_for_memory() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
        for rank in 0..3 {
            if rank != 1 || instant < 3 {
                let doing = futex("0x1").at(&["all_reduce /lib/dist.py 50", "main train.py 30"]);
                shot.rank(
                    rank,
                    20 + i32::try_from(rank).unwrap(),
                    &doing.ran_until(instant.min(3)),
                );
            }
        }
        with_kills(instant, shot);
    });
    let verdict = expect(&snapshots, State::Hung, Cause::OutOfMemory, Some(21));
    assert_eq!(crate::story::ranks(&verdict), [0, 2]);
}

fn stall(percent: f64) -> Pressure {
    let stall = Stall {
        avg10_percent: percent,
        ..Stall::default()
    };
    Pressure {
        full: Some(stall),
        some: Some(stall),
    }
}

#[test]
fn memory_at_its_limit_and_at_its_high_mark_and_with_no_killer() {
    for kind in 0..3 {
        let snapshots = story(COUNT, |instant, shot| {
            shot.process(10, 1, &runs(instant).at(&["main app.py 25"]));
            let level = shot.cgroup();
            level.pressure.insert("memory".to_owned(), stall(60.0));
            let memory = level.memory.as_mut().unwrap();
            memory.usage_bytes = Some(GIB - 4096);
            match kind {
                1 => (memory.limit_bytes, memory.high_bytes) = (Limit::Unlimited, Limit::At(GIB)),
                2 => memory.under_oom = Some(true),
                _ => {}
            }
        });
        let verdict = ask(&snapshots);
        assert_eq!(verdict.cause, Cause::MemoryPressure, "{}", verdict.summary);
        assert_eq!(verdict.culprit.unwrap().pid, 10);
    }
}

/// A cgroup of version 1 that runs so often a second into its limit, of which so much is left, on a machine with so much of ten GiB to
/// spare.
fn reclaims(hits: u64, left: u64, spare: u64) -> Vec<Snapshot> {
    story(COUNT, |instant, shot| {
        shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
        shot.process(20, 10, &runs(instant).at(&["scan app.py 25"]));
        for process in &mut shot.snapshot.processes {
            let rss_bytes = if process.pid == 10 { 2 * GIB } else { GIB };
            process.memory = Some(MemoryFacts {
                rss_bytes,
                ..MemoryFacts::default()
            });
        }
        shot.snapshot.processes[1].cgroup = vec!["7:memory:/batch".to_owned()];
        shot.snapshot.machine.memory_total_bytes = Some(10 * GIB);
        shot.snapshot.machine.memory_available_bytes = Some(spare);
        let on_machine = &mut shot.snapshot.machine.pressure;
        on_machine.insert("memory".to_owned(), stall(39.0));
        let level = shot.cgroup();
        "/sys/fs/cgroup/memory/batch".clone_into(&mut level.path);
        let memory = level.memory.as_mut().unwrap();
        memory.usage_bytes = Some(GIB - left);
        memory.limit_hits = Some(u64::from(instant) * hits);
    })
}

#[test]
fn a_cgroup_that_does_not_tell_its_pressure_and_reclaims_all_the_time() {
    let snapshots = reclaims(200, 4096, 9 * GIB);
    let verdict = expect(&snapshots, State::Slow, Cause::MemoryPressure, Some(20));
    let words = "39 % of the time somebody waits for memory";
    assert!(verdict.summary.contains(words), "{}", verdict.summary);
    // It has room, others on the machine are the cause, or the machine itself is short.
    for other in [
        reclaims(200, GIB / 2, 9 * GIB),
        reclaims(1, 4096, 9 * GIB),
        reclaims(200, 4096, GIB / 2),
    ] {
        assert_eq!(ask(&other).verdict, State::Healthy);
    }
}

#[test]
fn memory_near_its_limit_without_loss_is_well() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &runs(instant).at(&["main app.py 25"]));
        let level = shot.cgroup();
        level.pressure.insert("memory".to_owned(), stall(0.1));
        level.memory.as_mut().unwrap().usage_bytes = Some(GIB - 4096);
    });
    assert_eq!(ask(&snapshots).verdict, State::Healthy);
}

/// In every period, in most, and in a cgroup of its own.
#[test]
fn a_quota_that_is_used_up() {
    for (throttled, elsewhere) in [(10, false), (7, false), (10, true)] {
        let snapshots = story(COUNT, |instant, shot| {
            shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
            shot.process(20, 10, &runs(instant).at(&["hash app.py 25"]));
            let level = shot.cgroup();
            let cpu = level.cpu.as_mut().unwrap();
            cpu.quota_usec = Limit::At(4000);
            cpu.period_usec = Some(100_000);
            cpu.periods = Some(u64::from(instant) * 10);
            cpu.throttled_periods = Some(u64::from(instant) * throttled);
            if elsewhere {
                let chain = std::mem::take(&mut shot.snapshot.cgroup.chain);
                let processes = vec![crate::story::identity(20)];
                shot.snapshot.cgroup.others.push(model::OtherCgroup {
                    chain,
                    limits: None,
                    processes,
                });
            }
        });
        expect(&snapshots, State::Slow, Cause::CpuThrottled, Some(20));
    }
}

#[test]
fn a_quota_that_is_seldom_used_up_is_no_matter() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &runs(instant).at(&["hash app.py 25"]));
        let cpu = shot.cgroup().cpu.as_mut().unwrap();
        cpu.periods = Some(u64::from(instant) * 10);
        cpu.throttled_periods = Some(u64::from(instant));
    });
    assert_eq!(ask(&snapshots).verdict, State::Healthy);
}

#[test]
fn a_child_of_which_nothing_is_known_is_no_reason_to_guess() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(10, 1, &call("io_uring_enter").at(&["main app.py 25"]));
    });
    assert_eq!(ask(&snapshots).verdict, State::Unknown);
}

/// The killer is switched off: who asks for memory waits until somebody gives some back.
#[test]
fn memory_that_has_run_out_with_nobody_killed_stops_the_task() {
    let snapshots = story(COUNT, |_, shot| {
        let waits = call("").in_kernel("mem_cgroup_oom_synchronize", 'S');
        shot.process(10, 1, &waits.at(&["load app.py 25"]));
        let memory = shot.cgroup().memory.as_mut().unwrap();
        memory.usage_bytes = Some(GIB);
        memory.under_oom = Some(true);
    });
    expect(&snapshots, State::Hung, Cause::MemoryPressure, Some(10));
}

/// Periods in which next to no time was lost.
#[test]
fn a_quota_that_takes_little_time_is_no_matter_however_often() {
    for (lost, state) in [(20_000, State::Healthy), (400_000, State::Slow)] {
        let snapshots = story(COUNT, |instant, shot| {
            shot.process(10, 1, &runs(instant).at(&["hash app.py 25"]));
            let cpu = shot.cgroup().cpu.as_mut().unwrap();
            cpu.periods = Some(u64::from(instant) * 10);
            cpu.throttled_periods = Some(u64::from(instant) * 6);
            cpu.throttled_usec = Some(u64::from(instant) * lost);
        });
        assert_eq!(ask(&snapshots).verdict, state);
    }
}

/// A file system that no open file shows: the task asks to write, and nothing is written. One that writes its log beside it is well,
/// also where the disk that it works on has little room; and that it could make no file there is seen by nothing.
#[test]
fn a_full_disk_elsewhere_is_the_matter_of_who_writes_in_vain() {
    let told = |purpose: MountPurpose, (available, inodes): (u64, u64), written: u64| {
        story(COUNT, |instant, shot| {
            let process = shot.process(10, 1, &polls(instant).at(&["save checkpoint.py 20"]));
            let written = u64::from(instant) * written;
            let io = &mut process.proc.io;
            io.insert("syscw".to_owned(), instant.to_string());
            io.insert("wchar".to_owned(), written.to_string());
            let mount = shot.mount("/scratch", purpose, available, 100 * GIB);
            mount.inodes_free = Some(inodes);
        })
    };
    let vain = told(MountPurpose::Elsewhere, (0, 100), 0);
    let verdict = expect(&vain, State::Hung, Cause::DiskFull, Some(10));
    assert!(verdict.summary.contains("/scratch"), "{}", verdict.summary);
    for well in [
        told(MountPurpose::Elsewhere, (0, 100), 30),
        told(MountPurpose::Elsewhere, (50 * GIB, 0), 30),
        told(MountPurpose::WorkingDirectory, (GIB / 2, 100), 30),
    ] {
        assert_eq!(ask(&well).verdict, State::Healthy);
    }
}
