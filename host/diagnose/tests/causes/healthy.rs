//! Jobs that only look stuck: from the third snapshot on they are well, and never called hung.

use model::Snapshot;
use taskscope_diagnose::State;

use crate::story::{
    add_thread, ask, call, counts, futex, on, polls, runs, semaphore, story, waits_for,
};

const COUNT: u32 = 14;

/// Asserts that it is well after each snapshot from the third on, and before that at least not hung.
#[track_caller]
fn well(snapshots: &[Snapshot]) {
    for count in 1..=snapshots.len() {
        let verdict = ask(&snapshots[..count]);
        let fine = match count {
            1 | 2 => matches!(verdict.verdict, State::Healthy | State::Unknown),
            _ => matches!(verdict.verdict, State::Healthy | State::Slow),
        };
        assert!(
            fine,
            "after {count}: {} {}: {}",
            verdict.verdict.word(),
            verdict.cause.word(),
            verdict.summary
        );
        assert!(verdict.culprit.is_none() && verdict.victims.is_empty());
    }
}

#[test]
fn workers_that_idle_because_the_main_loop_is_slower() {
    well(&story(COUNT, |instant, shot| {
        let main = shot.process(
            10,
            1,
            &polls(instant).at(&["optimize train.py 29", "main train.py 25"]),
        );
        counts(main, "main", instant * 5);
        for pid in 20..24 {
            shot.process(
                pid,
                10,
                &semaphore("0xa0").at(&[
                    "get /usr/lib/python3.11/multiprocessing/queues.py 102",
                    "work train.py 14",
                ]),
            );
        }
        shot.shared("0xa0", &[20, 21, 22, 23], &[10, 20, 21, 22, 23]);
    }));
}

#[test]
fn a_driver_that_waits_for_its_busy_child() {
    well(&story(COUNT, |instant, shot| {
        shot.process(
            10,
            1,
            &waits_for(20).at(&[
                "call /usr/lib/python3.11/subprocess.py 391",
                "main app.py 3",
            ]),
        );
        shot.process(20, 10, &runs(instant).at(&["compress app.py 20"]));
    }));
}

#[test]
fn ranks_whose_steps_take_long_and_that_wait_for_each_other_a_little() {
    well(&story(COUNT, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
        for rank in 0..3 {
            let waits = instant % 5 == 4 && rank < 2;
            let doing = if waits {
                futex("0x1")
                    .at(&["all_reduce /lib/dist.py 50", "main train.py 30"])
                    .ran_until(instant * 10)
            } else {
                polls(instant).at(&["forward train.py 15", "main train.py 29"])
            };
            let process = shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
            counts(process, "main", instant / 5);
        }
    }));
}

#[test]
fn a_service_that_waits_for_requests() {
    let waits = [
        call("accept4"),
        call("epoll_wait"),
        call("poll").of_fds(&[5]).for_a_while(),
    ];
    for wait in waits {
        well(&story(COUNT, |_, shot| {
            shot.process(10, 1, &wait.clone().at(&["serve app.py 3"]));
        }));
    }
}

#[test]
fn a_job_that_sleeps_between_its_rounds() {
    well(&story(COUNT, |_, shot| {
        shot.process(10, 1, &polls(0).at(&["main cron.py 3"]));
    }));
}

#[test]
fn one_rank_writes_a_checkpoint_while_the_others_wait() {
    well(&story(COUNT, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
        for rank in 0..3 {
            let doing = if rank == 0 {
                on("write", 7, "/data/checkpoint")
                    .in_kernel("folio_wait_bit_common", 'D')
                    .ran_until(instant)
                    .at(&["save train.py 40", "main train.py 30"])
            } else {
                futex("0x1")
                    .at(&["barrier /lib/dist.py 50", "main train.py 31"])
                    .ran_until(1)
            };
            let process = shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
            let written = if rank == 0 { instant * 5_000_000 } else { 0 };
            process
                .proc
                .io
                .insert("wchar".to_owned(), written.to_string());
            process.proc.io.insert("rchar".to_owned(), "0".to_owned());
        }
    }));
}

#[test]
fn one_rank_compiles_while_the_others_wait() {
    // In a child, or in itself with fresh memory all the time.
    for by_child in [true, false] {
        well(&story(COUNT, |instant, shot| {
            shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
            for rank in 0..3 {
                let compiles = rank == 0;
                let doing = match (compiles, by_child) {
                    (true, true) => waits_for(30).at(&["compile jit.py 40", "main train.py 30"]),
                    (true, false) => runs(instant).at(&["compile jit.py 40", "main train.py 30"]),
                    _ => futex("0x1")
                        .at(&["barrier /lib/dist.py 50", "main train.py 31"])
                        .ran_until(1),
                };
                let process = shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
                if compiles && !by_child {
                    process.proc.minor_faults = Some(u64::from(instant) * 5000);
                }
            }
            if by_child {
                let mut compiler = runs(instant);
                compiler = compiler.named("cc1plus");
                shot.process(30, 20, &compiler);
            }
        }));
    }
}

#[test]
fn a_main_thread_that_waits_for_threads_that_work() {
    well(&story(COUNT, |instant, shot| {
        let process = shot.process(
            10,
            1,
            &futex("0x1").at(&[
                "join /usr/lib/python3.11/threading.py 1119",
                "main app.py 40",
            ]),
        );
        add_thread(process, 11, &runs(instant).at(&["work app.py 10"]));
        add_thread(
            process,
            12,
            &futex("0x2").at(&[
                "wait /usr/lib/python3.11/threading.py 320",
                "get /usr/lib/python3.11/queue.py 171",
            ]),
        );
    }));
}

#[test]
fn a_main_thread_that_waits_for_a_signal_to_set_an_event() {
    let snapshots = story(COUNT, |_, shot| {
        let process = shot.process(
            10,
            1,
            &futex("0x1").at(&[
                "wait /usr/lib/python3.11/threading.py 327",
                "Event.wait /usr/lib/python3.11/threading.py 629",
                "main app.py 40",
            ]),
        );
        let idle = [
            "get /usr/lib/python3.11/queue.py 171",
            "_worker /usr/lib/python3.11/concurrent/futures/thread.py 81",
        ];
        add_thread(process, 11, &futex("0x2").at(&idle));
    });
    for count in 1..=snapshots.len() {
        assert_ne!(ask(&snapshots[..count]).verdict, State::Hung);
    }
}

#[test]
fn ranks_that_wait_each_step_as_long_as_they_always_did() {
    // Four of five seconds of each step: the first step is seen whole before the wait is longer than the patience.
    let snapshots = story(30, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
        for rank in 0..2 {
            let doing = if rank == 0 && instant % 5 != 0 {
                futex("0x1")
                    .at(&["all_reduce /lib/dist.py 50", "main train.py 30"])
                    .ran_until(instant - instant % 5)
            } else {
                polls(instant).at(&["load data.py 15", "main train.py 29"])
            };
            shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
        }
    });
    for count in 10..=snapshots.len() {
        let verdict = ask(&snapshots[..count]);
        assert_ne!(
            verdict.verdict,
            State::Hung,
            "after {count}: {}",
            verdict.summary
        );
    }
}

#[test]
fn a_pool_of_threads_that_fetch_slowly() {
    well(&story(COUNT, |instant, shot| {
        let result = [
            "wait /usr/lib/python3.11/threading.py 327",
            "result /usr/lib/python3.11/concurrent/futures/_base.py 451",
            "main app.py 40",
        ];
        let process = shot.process(10, 1, &futex("0x1").at(&result).ran_until(instant / 3));
        for tid in 11..14 {
            add_thread(process, tid, &polls(instant).at(&["fetch app.py 10"]));
        }
    }));
}

/// A simulator of 100 rounds a second: at each look it sleeps between two of them, and the other ranks wait for it, again.
#[test]
fn a_rank_that_paces_itself_and_others_that_it_wakes_each_step() {
    for steps_last in 1..=4 {
        let snapshots = story(COUNT, |instant, shot| {
            shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
            for rank in 0..3 {
                let doing = if rank == 0 {
                    polls(instant).at(&["pace simulator.py 15", "main train.py 29"])
                } else {
                    let place = ["recv wire.py 5", "all_reduce wire.py 9", "main train.py 30"];
                    let doing = on("recvfrom", 3, "socket:[9]").at(&place);
                    doing.ran_until(instant / steps_last * 10)
                };
                shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
            }
        });
        for count in 1..=snapshots.len() {
            let verdict = ask(&snapshots[..count]);
            assert_ne!(
                verdict.verdict,
                State::Hung,
                "steps of {steps_last}, after {count}: {}",
                verdict.summary
            );
        }
    }
}
