//! Rules about who waits for whom, and for what.

use super::Job;
use crate::story::{call, counts, descriptor, futex, on, polls, runs, semaphore, story, waits_for};

const COUNT: u32 = 8;

/// Refuted: it runs in a later snapshot.
pub(super) fn stopped(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
        let child = if is_refuted && instant + 1 == COUNT {
            runs(instant).at(&["work app.py 9"])
        } else {
            call("read").in_kernel("do_signal_stop", 'T')
        };
        shot.process(20, 10, &child);
    });
    snapshots.into()
}

/// Refuted: the thread ran in between.
pub(super) fn storage(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        let reads = on("read", 5, "/mnt/shard").in_kernel("request_wait_answer", 'D');
        let reads = reads.at(&["read_shard data.py 20"]);
        shot.process(
            10,
            1,
            &reads.ran_until(if is_refuted { instant } else { 0 }),
        );
    });
    snapshots.into()
}

/// Refuted: a rank of the group gets on.
pub(super) fn rank_behind(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
        for rank in 0..3_i32 {
            let doing = if rank == 2 {
                polls(instant).at(&["wait_for shard.py 3", "main train.py 30"])
            } else {
                futex("0x7f00").at(&["all_reduce /lib/dist.py 50", "main train.py 30"])
            };
            let number = u32::try_from(rank).unwrap();
            let process = shot.rank(number, 20 + rank, &doing.ran_until(5));
            counts(process, "main", if is_refuted { instant } else { 5 });
        }
    });
    snapshots.into()
}

/// Refuted: somebody else holds the other end.
pub(super) fn pipe_orphaned(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["main launch.py 3"]));
        let writes = on("write", 4, "pipe:[1]").at(&["write_samples data.py 18"]);
        shot.process(20, 10, &writes);
        let readers: &[i32] = if is_refuted { &[10, 20] } else { &[20] };
        shot.pipe("pipe:[1]", readers, &[20], 65536);
    });
    snapshots.into()
}

/// Refuted: a reader reads.
pub(super) fn pipe_full(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |_, shot| {
        let reader = if is_refuted {
            on("read", 3, "pipe:[1]")
        } else {
            waits_for(20)
        };
        shot.process(10, 1, &reader.at(&["main app.py 20"]));
        let writes = on("write", 1, "pipe:[1]").at(&["tokenize tok.py 13"]);
        shot.process(20, 10, &writes);
        shot.pipe("pipe:[1]", &[10], &[20], 65000);
    });
    snapshots.into()
}

/// Refuted: the one that runs gets on.
pub(super) fn busy_loop(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["main sim.py 50"]));
        shot.process(20, 10, &semaphore("0xb0").at(&["work sim.py 20"]));
        let turns = runs(instant)
            .at(&["until_ready sim.py 31", "work sim.py 18"])
            .with_gil();
        let process = shot.process(21, 10, &turns);
        counts(process, "work", if is_refuted { instant } else { 0 });
        shot.shared("0xb0", &[20], &[20, 21]);
    });
    snapshots.into()
}

/// Refuted: it counts on.
pub(super) fn busy_loop_by_steps(is_refuted: bool) -> Job {
    let snapshots = story(16, |instant, shot| {
        let turns = runs(instant)
            .at(&["until_flag train.py 3", "main train.py 31"])
            .with_gil();
        let works = polls(instant).at(&["main train.py 30"]);
        let process = shot.process(10, 1, if instant < 6 { &works } else { &turns });
        let counted = if is_refuted { instant } else { instant.min(6) };
        counts(process, "main", counted * 10);
    });
    snapshots.into()
}

/// Refuted: a process of the task holds the other end.
pub(super) fn input(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        let reads = on("read", 0, "pipe:[1]").at(&["ask app.py 3"]);
        let process = shot.process(10, 1, &reads);
        descriptor(process, 0, "pipe:[1]");
        let mut writers = Vec::new();
        if is_refuted {
            shot.process(20, 10, &polls(instant).at(&["feed app.py 3"]));
            writers.push(20);
        }
        shot.pipe("pipe:[1]", &[10], &writers, 0);
    });
    snapshots.into()
}

/// Refuted: data came in between.
pub(super) fn peer(is_refuted: bool) -> Job {
    let snapshots = story(18, |instant, shot| {
        let reads = on("recvfrom", 4, "socket:[1]").at(&["fetch app.py 3"]);
        shot.process(
            10,
            1,
            &reads.ran_until(if is_refuted { instant } else { 0 }),
        );
        let facts = ("10.0.0.1:5000", "10.0.0.2:443", "established");
        shot.tcp("socket:[1]", &[10], facts, None);
    });
    snapshots.into()
}

/// Refuted: the child runs.
pub(super) fn child(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
        let child = if is_refuted {
            runs(instant)
        } else {
            call("rt_sigsuspend")
        };
        shot.process(20, 10, &child.at(&["work tool.py 3"]));
    });
    snapshots.into()
}
