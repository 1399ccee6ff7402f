//! Rules about what has ended.

use model::Ending;

use super::Job;
use crate::ends::{end, killed};
use crate::story::{add_thread, counts, futex, on, polls, runs, semaphore, story, waits_for};

const COUNT: u32 = 8;

fn pid(rank: u32) -> i32 {
    20 + i32::try_from(rank).unwrap()
}

/// Three ranks under a launcher, of which rank 1 is gone from the third snapshot on; the others wait for it unless they `count`.
fn ranks(instant: u32, shot: &mut crate::story::Shot, count: bool) {
    shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
    for rank in (0..3).filter(|rank| *rank != 1 || instant < 3) {
        let waits = futex("0x1").at(&["all_reduce /lib/dist.py 50", "main train.py 30"]);
        let ran = if count { instant } else { instant.min(3) };
        let process = shot.rank(rank, pid(rank), &waits.ran_until(ran));
        counts(process, "main", if count { instant } else { 0 });
    }
}

/// Refuted: the others get on without it.
pub(super) fn rank_dead(is_refuted: bool) -> Job {
    story(COUNT, |instant, shot| ranks(instant, shot, is_refuted)).into()
}

/// Refuted: the count has not grown.
pub(super) fn out_of_memory(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        ranks(instant, shot, false);
        let memory = shot.cgroup().memory.as_mut().unwrap();
        memory.oom_kills = Some(u64::from(instant >= 3 && !is_refuted));
    });
    snapshots.into()
}

/// Refuted: somebody who maps the lock does something else.
pub(super) fn crashed(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
        let waits = semaphore("0xc0").at(&["append results.py 15"]);
        shot.process(20, 10, &waits);
        let mut mapped = vec![20];
        if is_refuted {
            let place = format!("merge results.py {}", 40 + instant % 3);
            shot.process(22, 10, &runs(instant).at(&[&place]));
            mapped.push(22);
        }
        shot.zombie(21, 10, None, Some(9));
        shot.shared("0xc0", &[20], &mapped);
    });
    snapshots.into()
}

/// Refuted: the task gets on.
pub(super) fn worker_lost(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        let waits = [
            "wait /usr/lib/python3.11/threading.py 320",
            "ApplyResult.wait /usr/lib/python3.11/multiprocessing/pool.py 762",
            "map /usr/lib/python3.11/multiprocessing/pool.py 367",
            "main app.py 40",
        ];
        let process = shot.process(10, 1, &futex("0x1").at(&waits));
        let watches = ["_handle_workers /usr/lib/python3.11/multiprocessing/pool.py 522"];
        add_thread(process, 11, &polls(instant).named("pool").at(&watches));
        let idle = ["get /usr/lib/python3.11/multiprocessing/queues.py 364"];
        let worker = shot.process(21, 10, &on("read", 3, "pipe:[1]").at(&idle));
        if is_refuted {
            counts(worker, "get", instant);
        }
        shot.pipe("pipe:[1]", &[21], &[10], 0);
    });
    Job {
        snapshots,
        ends: vec![end(0, 30, killed(9))],
    }
}

/// Refuted: the parent gets on.
pub(super) fn zombies(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        let process = shot.process(10, 1, &polls(instant).at(&["main app.py 21"]));
        counts(process, "main", if is_refuted { instant } else { 0 });
        shot.zombie(20, 10, Some(2), None);
    });
    snapshots.into()
}

/// Refuted: the main process ended with status 0.
pub(super) fn ended(is_refuted: bool) -> Job {
    let status = if is_refuted { 0 } else { 3 };
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &runs(instant).at(&["main app.py 21"]));
    });
    Job {
        snapshots,
        ends: vec![end(0, 10, Ending::Exited(status))],
    }
}
