//! Rules about locks.

use super::Job;
use crate::story::{
    add_thread, call, counts, descriptor, futex, polls, runs, semaphore, story, waits_for,
};

const COUNT: u32 = 6;

/// Refuted: a thread of one of them ran.
pub(super) fn circle(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["main launch.py 3"]));
        let ran = if is_refuted { instant } else { 0 };
        let waits = call("flock").at(&["locked build.py 13"]);
        shot.process(20, 10, &waits.clone().ran_until(ran));
        shot.process(21, 10, &waits);
        shot.lock("/w/index", 20, &[21]);
        shot.lock("/w/cache", 21, &[20]);
    });
    snapshots.into()
}

/// Refuted: somebody who maps that memory does something else.
pub(super) fn of_processes(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
        shot.process(20, 10, &semaphore("0xa0").at(&["swap a.py 13"]));
        shot.process(21, 10, &semaphore("0xb0").at(&["swap a.py 14"]));
        let mut mapped = vec![10, 20, 21];
        if is_refuted {
            let place = format!("prepare app.py {}", 14 + instant % 3);
            shot.process(22, 10, &runs(instant).at(&[&place]));
            mapped.push(22);
        }
        shot.shared("0xa0", &[20], &mapped);
        shot.shared("0xb0", &[21], &mapped);
    });
    snapshots.into()
}

/// Refuted: a thread of the process does something else.
pub(super) fn of_threads(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        let waits = futex("0x1").at(&["update app.py 10", "main app.py 40"]);
        let process = shot.process(10, 1, &waits);
        if is_refuted {
            let works = runs(instant).named("worker");
            add_thread(process, 11, &works.at(&["compute app.py 71"]));
        }
    });
    snapshots.into()
}

/// Refuted: the holder gets on.
pub(super) fn file_lock(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["main launch.py 3"]));
        let holder = shot.process(20, 10, &polls(instant).at(&["hold a.py 3"]));
        counts(holder, "hold", if is_refuted { instant } else { 0 });
        shot.process(21, 10, &call("flock").at(&["locked b.py 13"]));
        shot.lock("/w/index", 20, &[21]);
    });
    snapshots.into()
}

/// Refuted: the holder works.
pub(super) fn database(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        let process = shot.process(10, 1, &polls(instant).at(&["insert job.py 30"]));
        descriptor(process, 5, "/w/jobs.db");
        let ran = if is_refuted { instant } else { 0 };
        let waits = call("pause").ran_until(ran).at(&["hold job.py 40"]);
        let holder = shot.process(20, 10, &waits);
        counts(holder, "hold", ran);
        shot.lock("/w/jobs.db", 20, &[]);
        let lock = shot.snapshot.ipc.locks.last_mut().unwrap();
        (lock.class, lock.start) = ("POSIX".to_owned(), 0x4000_0001);
    });
    snapshots.into()
}

/// Refuted: another thread held it in between.
pub(super) fn interpreter(is_refuted: bool) -> Job {
    let snapshots = story(9, |instant, shot| {
        let taking = futex("0xa").for_a_while().ran_until(instant * 20);
        let mut taking = taking.at(&["main app.py 24"]);
        let mut keeps = runs(instant).at(&["clean text.py 16"]);
        if is_refuted && instant % 2 == 0 {
            taking = taking.with_gil();
        } else {
            keeps = keeps.with_gil();
        }
        let process = shot.process(10, 1, &taking);
        add_thread(process, 11, &keeps);
    });
    snapshots.into()
}

/// Refuted: the child has become another program.
pub(super) fn inherited(is_refuted: bool) -> Job {
    let snapshots = story(COUNT, |instant, shot| {
        let waits = waits_for(20).at(&["main app.py 45", "<module> app.py 49"]);
        let parent = shot.process(10, 1, &waits);
        let flushes = polls(instant).named("flush").at(&["flush app.py 25"]);
        add_thread(parent, 11, &flushes);
        let frames = ["emit app.py 18", "main app.py 43", "<module> app.py 49"];
        let child = shot.process(20, 10, &futex("0x1").at(&frames));
        if is_refuted {
            child.exe = Some("/usr/bin/tool".to_owned());
        }
    });
    snapshots.into()
}
