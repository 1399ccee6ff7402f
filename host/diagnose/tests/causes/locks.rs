//! Deadlocks, inherited locks, the interpreter lock, locks of files and locks of the dead.

use taskscope_diagnose::{Cause, State};

use crate::story::{
    add_thread, ask, call, descriptor, expect, futex, on, pids, polls, runs, semaphore, story,
    waits_for,
};

const COUNT: u32 = 6;
const THREADING: &str = "join /usr/lib/python3.11/threading.py 1119";

#[test]
fn two_threads_that_want_two_locks_are_a_deadlock() {
    let snapshots = story(COUNT, |_, shot| {
        let process = shot.process(10, 1, &futex("0x1").at(&[THREADING, "main app.py 40"]));
        add_thread(
            process,
            11,
            &futex("0x2").named("a").at(&["update app.py 10"]),
        );
        add_thread(
            process,
            12,
            &futex("0x3").named("b").at(&["publish app.py 20"]),
        );
    });
    let verdict = expect(&snapshots, State::Hung, Cause::Deadlock, Some(10));
    assert_eq!(verdict.culprit.unwrap().thread, Some(11));
}

#[test]
fn threads_that_want_a_lock_at_one_line_are_told_together() {
    let snapshots = story(COUNT, |_, shot| {
        let process = shot.process(10, 1, &futex("0x1").at(&["main app.py 40"]));
        for tid in 11..18 {
            let name = format!("w{tid}");
            add_thread(
                process,
                tid,
                &futex("0x2").named(&name).at(&["work a.py 5"]),
            );
        }
    });
    let verdict = expect(&snapshots, State::Hung, Cause::Deadlock, Some(10));
    let words = "thread 10 (thread) in main (app.py:40) and \
        threads 11 (w11), 12 (w12), 13 (w13), 14 (w14) and 3 more in work (a.py:5) wait for what";
    assert!(verdict.summary.contains(words), "{}", verdict.summary);
}

#[test]
fn of_many_deadlocked_processes_nine_are_told() {
    let snapshots = story(COUNT, |_, shot| {
        for pid in (100..300).step_by(10) {
            let process = shot.process(pid, 1, &futex("0x1").at(&["main app.py 40"]));
            let other = futex("0x2").named("b").at(&["publish app.py 20"]);
            add_thread(process, pid + 1, &other);
        }
    });
    let verdict = expect(&snapshots, State::Hung, Cause::Deadlock, Some(100));
    assert_eq!(verdict.findings.len(), 8);
    let is_shown = |it: &taskscope_diagnose::Verdict| !it.evidence.is_empty();
    assert!(is_shown(&verdict) && verdict.findings.iter().all(is_shown));
}

#[test]
fn a_background_thread_that_sleeps_does_not_hide_it() {
    let snapshots = story(COUNT, |instant, shot| {
        let process = shot.process(10, 1, &futex("0x2").at(&["update app.py 10"]));
        add_thread(
            process,
            12,
            &futex("0x3").named("b").at(&["publish app.py 20"]),
        );
        add_thread(
            process,
            13,
            &polls(instant).named("heartbeat").at(&["beat app.py 90"]),
        );
    });
    expect(&snapshots, State::Hung, Cause::Deadlock, Some(10));
}

#[test]
fn one_that_takes_its_own_lock_twice_waits_for_ever() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(
            10,
            1,
            &futex("0x2").at(&["reenter app.py 10", "main app.py 30"]),
        );
    });
    expect(&snapshots, State::Hung, Cause::Deadlock, Some(10));
}

#[test]
fn a_queue_that_nobody_fills_and_a_join_of_who_reads_it() {
    let snapshots = story(COUNT, |_, shot| {
        let process = shot.process(10, 1, &futex("0x1").at(&[THREADING, "main app.py 40"]));
        let get = [
            "wait /usr/lib/python3.11/threading.py 320",
            "get /usr/lib/python3.11/queue.py 171",
            "consume app.py 8",
        ];
        add_thread(process, 11, &futex("0x2").named("consumer").at(&get));
    });
    let verdict = expect(&snapshots, State::Hung, Cause::Deadlock, Some(10));
    assert_eq!(verdict.culprit.unwrap().thread, Some(11));
}

#[test]
fn processes_that_hold_a_file_lock_each_and_want_the_others() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["main launch.py 3"]));
        shot.process(20, 10, &call("flock").at(&["locked build.py 13"]));
        shot.process(21, 10, &call("flock").at(&["locked build.py 13"]));
        shot.lock("/w/index", 20, &[21]);
        shot.lock("/w/cache", 21, &[20]);
    });
    expect(&snapshots, State::Hung, Cause::Deadlock, Some(20));
}

#[test]
fn two_that_wait_for_each_others_answer() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["main launch.py 3"]));
        shot.process(
            20,
            10,
            &on("recvfrom", 3, "socket:[1]").at(&["ask a.py 13"]),
        );
        shot.process(
            21,
            10,
            &on("recvfrom", 3, "socket:[2]").at(&["ask b.py 13"]),
        );
        shot.unix(("socket:[1]", 20), ("socket:[2]", 21));
    });
    expect(&snapshots, State::Hung, Cause::Deadlock, Some(20));
}

#[test]
fn a_launcher_whose_other_thread_serves_is_not_in_a_circle_with_who_asks_it() {
    let snapshots = story(COUNT, |_, shot| {
        let launcher = shot.process(10, 1, &waits_for(20).at(&["main launch.py 3"]));
        let serves = on("recvfrom", 7, "socket:[9]").at(&["serve launch.py 9"]);
        add_thread(launcher, 11, &serves);
        shot.process(
            20,
            10,
            &on("recvfrom", 3, "socket:[1]").at(&["exchange job.py 13"]),
        );
        shot.unix(("socket:[1]", 20), ("socket:[2]", 10));
    });
    assert_ne!(ask(&snapshots).cause, Cause::Deadlock);
}

#[test]
fn a_server_that_asks_itself() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(
            10,
            1,
            &on("recvfrom", 3, "socket:[1]").at(&["fetch app.py 15", "handle app.py 22"]),
        );
        shot.unix(("socket:[1]", 10), ("socket:[2]", 10));
    });
    expect(&snapshots, State::Hung, Cause::Deadlock, Some(10));
}

#[test]
fn a_parent_waits_for_a_child_that_reads_what_the_parent_does_not_write() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(
            10,
            1,
            &waits_for(20).at(&[
                "wait /usr/lib/python3.11/subprocess.py 1264",
                "main app.py 9",
            ]),
        );
        shot.process(20, 10, &on("read", 0, "pipe:[1]").at(&["main filter.py 4"]));
        shot.pipe("pipe:[1]", &[20], &[10], 0);
    });
    let verdict = ask(&snapshots);
    assert_eq!(
        (verdict.verdict, verdict.cause),
        (State::Hung, Cause::Deadlock),
        "{}",
        verdict.summary
    );
}

#[test]
fn a_forked_child_waits_for_a_lock_of_a_thread_that_it_does_not_have() {
    let snapshots = story(COUNT, |instant, shot| {
        let parent = shot.process(
            10,
            1,
            &waits_for(20).at(&["main app.py 45", "<module> app.py 49"]),
        );
        add_thread(
            parent,
            11,
            &polls(instant).named("flush").at(&["flush app.py 25"]),
        );
        shot.process(
            20,
            10,
            &futex("0x1").at(&["emit app.py 18", "main app.py 43", "<module> app.py 49"]),
        );
    });
    let verdict = expect(&snapshots, State::Hung, Cause::InheritedLock, Some(20));
    assert_eq!(pids(&verdict), [10]);
}

#[test]
fn a_pool_worker_waits_for_the_lock_of_the_log() {
    let snapshots = story(COUNT, |instant, shot| {
        let parent = shot.process(
            10,
            1,
            &futex("0x9").at(&[
                "wait /usr/lib/python3.11/threading.py 320",
                "get /usr/lib/python3.11/multiprocessing/pool.py 768",
                "main app.py 45",
                "<module> app.py 49",
            ]),
        );
        add_thread(
            parent,
            11,
            &polls(instant).named("handler").at(&["emit log.py 25"]),
        );
        let frames = [
            "acquire /usr/lib/python3.11/logging/__init__.py 917",
            "info log.py 3",
            "_bootstrap /usr/lib/python3.11/multiprocessing/process.py 314",
            "<module> app.py 49",
        ];
        shot.process(
            20,
            10,
            &futex("0x1").at(&["acquire log.py 1"]
                .iter()
                .chain(&frames[1..])
                .copied()
                .collect::<Vec<_>>()),
        );
    });
    expect(&snapshots, State::Hung, Cause::InheritedLock, Some(20));
}

#[test]
fn the_parent_whose_thread_held_the_lock_may_have_ended_that_thread() {
    let snapshots = story(COUNT, |instant, shot| {
        let parent = shot.process(
            10,
            1,
            &waits_for(20)
                .at(&["main app.py 45", "<module> app.py 49"])
                .ran_until(instant.min(2)),
        );
        if instant < 2 {
            add_thread(
                parent,
                11,
                &polls(instant).named("flush").at(&["flush app.py 25"]),
            );
        }
        shot.process(
            20,
            10,
            &futex("0x1").at(&["emit app.py 18", "main app.py 43", "<module> app.py 49"]),
        );
    });
    let verdict = ask(&snapshots);
    assert_eq!(
        (verdict.cause, verdict.culprit.unwrap().pid),
        (Cause::InheritedLock, 20)
    );
}

/// Regular expression, native call, sleep in C: whoever keeps the interpreter lock.
#[test]
fn a_thread_keeps_the_interpreter_lock() {
    let keeping = |instant: u32| {
        [
            runs(instant).at(&[
                "match /usr/lib/python3.11/re/__init__.py 166",
                "clean text.py 16",
            ]),
            runs(instant).at(&["multiply native.py 3"]),
            on("read", 9, "/dev/slow")
                .at(&["blocking native.py 8"])
                .ran_until(1),
        ]
    };
    for kind in 0..3 {
        let snapshots = story(9, |instant, shot| {
            let taking = futex("0xa")
                .for_a_while()
                .ran_until(instant * 20)
                .at(&["main app.py 24"]);
            let process = shot.process(10, 1, &taking);
            add_thread(
                process,
                11,
                &keeping(instant)[kind].clone().named("worker").with_gil(),
            );
        });
        let verdict = expect(&snapshots, State::Hung, Cause::GilHeld, Some(10));
        assert_eq!(verdict.culprit.unwrap().thread, Some(11));
    }
}

/// On a busy machine a look at the stacks may fail, and who wants the lock may be about to run when it is asked for its call.
#[test]
fn a_thread_keeps_the_interpreter_lock_though_not_every_look_shows_all() {
    for blind in 0..9 {
        let snapshots = story(9, |instant, shot| {
            let place = ["main app.py 24"];
            let mut taking = futex("0xa").for_a_while();
            if instant == blind {
                taking = call("");
            }
            let taking = taking.ran_until(instant * 20).at(&place);
            let process = shot.process(10, 1, &taking);
            let keeps = runs(instant).at(&["clean text.py 16"]).with_gil();
            add_thread(process, 11, &keeps);
            if instant + 1 == blind {
                process.pyspy = None;
            }
        });
        expect(&snapshots, State::Hung, Cause::GilHeld, Some(10));
    }
}

#[test]
fn threads_that_take_turns_share_the_interpreter_lock_well() {
    let snapshots = story(COUNT, |instant, shot| {
        let (mut one, mut other) = (
            runs(instant).at(&["a app.py 1"]),
            runs(instant).at(&["b app.py 2"]),
        );
        if instant % 2 == 0 {
            one = one.with_gil();
        } else {
            other = other.with_gil();
        }
        let process = shot.process(10, 1, &one);
        add_thread(process, 11, &other);
    });
    assert_eq!(ask(&snapshots).verdict, State::Healthy);
}

#[test]
fn a_lock_of_one_that_was_killed() {
    // A lock, a semaphore of a queue, a condition: all are words of shared memory.
    for function in [
        "append results.py 15",
        "put jobs.py 89",
        "notify board.py 7",
    ] {
        let snapshots = story(COUNT, |_, shot| {
            shot.process(
                10,
                1,
                &waits_for(20).at(&["join /usr/lib/python3.11/multiprocessing/process.py 149"]),
            );
            for pid in [20, 22] {
                shot.process(
                    pid,
                    10,
                    &semaphore("0xc0").at(&[
                        "__enter__ /usr/lib/python3.11/multiprocessing/synchronize.py 95",
                        function,
                    ]),
                );
            }
            shot.zombie(21, 10, None, Some(9));
            shot.shared("0xc0", &[20, 22], &[20, 22]);
        });
        let verdict = expect(&snapshots, State::Hung, Cause::Crashed, Some(21));
        assert_eq!(pids(&verdict), [20, 22]);
    }
}

#[test]
fn a_lock_of_one_that_is_gone_is_known_by_what_it_mapped() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
        shot.process(
            20,
            10,
            &semaphore("0xc0")
                .at(&["append results.py 15"])
                .ran_until(instant.min(2)),
        );
        if instant < 2 {
            shot.process(21, 10, &polls(instant).at(&["append results.py 16"]));
            shot.shared("0xc0", &[], &[20, 21]);
        } else {
            shot.shared("0xc0", &[20], &[20]);
        }
    });
    expect(&snapshots, State::Hung, Cause::Crashed, Some(21));
}

#[test]
fn a_file_lock_of_one_that_sleeps_of_one_that_waits_for_input_and_of_a_stranger() {
    let holders = |instant: u32| {
        [
            polls(instant).at(&["hold a.py 3"]),
            call("pause").at(&["hold a.py 3"]),
        ]
    };
    for kind in 0..2 {
        let snapshots = story(COUNT, |instant, shot| {
            shot.process(10, 1, &polls(instant).at(&["main launch.py 3"]));
            shot.process(20, 10, &holders(instant)[kind]);
            shot.process(21, 10, &call("flock").at(&["locked b.py 13"]));
            shot.lock("/w/index", 20, &[21]);
        });
        let verdict = expect(&snapshots, State::Hung, Cause::FileLock, Some(20));
        assert_eq!(pids(&verdict), [21]);
    }
    let snapshots = story(COUNT, |_, shot| {
        shot.process(10, 1, &call("flock").at(&["locked b.py 13"]));
        shot.lock("/w/index", 999, &[10]);
    });
    expect(&snapshots, State::Hung, Cause::FileLock, Some(10));
}

#[test]
fn processes_that_share_two_locks_in_memory_and_hold_one_each() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
        shot.process(20, 10, &semaphore("0xa0").at(&["swap a.py 13"]));
        shot.process(21, 10, &semaphore("0xb0").at(&["swap a.py 14"]));
        shot.shared("0xa0", &[20], &[10, 20, 21]);
        shot.shared("0xb0", &[21], &[10, 20, 21]);
    });
    let verdict = expect(&snapshots, State::Hung, Cause::Deadlock, Some(20));
    assert!(verdict.summary.contains("share"), "{}", verdict.summary);
}

/// All but one are at a barrier of processes; that one is at work, and gets there.
#[test]
fn who_has_not_come_to_a_barrier_yet_is_no_deadlock() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
        for pid in [20, 21] {
            shot.process(pid, 10, &semaphore("0xa0").at(&["wait barrier.py 13"]));
        }
        let place = format!("prepare app.py {}", 14 + instant % 3);
        shot.process(22, 10, &runs(instant).at(&[&place]));
        shot.shared("0xa0", &[20, 21], &[10, 20, 21, 22]);
    });
    for count in 1..=snapshots.len() {
        let verdict = ask(&snapshots[..count]);
        assert_ne!(verdict.verdict, State::Hung, "{}", verdict.summary);
    }
    // Where the maps of one could not be read, who else shares the lock is not known.
    let snapshots = story(COUNT, |_, shot| {
        shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
        shot.process(20, 10, &semaphore("0xa0").at(&["wait barrier.py 13"]));
        shot.shared("0xa0", &[20], &[10, 20]);
        let gap = model::Gap::new("ipc/maps", model::GapCode::Skipped);
        shot.snapshot.gaps.push(gap);
    });
    assert_ne!(ask(&snapshots).verdict, State::Hung);
}

#[test]
fn a_lock_in_memory_that_nobody_else_maps_any_more() {
    let told = |threads: bool| {
        story(COUNT, |instant, shot| {
            let process = shot.process(10, 1, &semaphore("0xa0").at(&["main app.py 3"]));
            if threads {
                add_thread(process, 11, &polls(instant).at(&["beat app.py 9"]));
            }
            shot.shared("0xa0", &[10], &[10]);
        })
    };
    expect(&told(false), State::Hung, Cause::Deadlock, Some(10));
    assert_ne!(ask(&told(true)).verdict, State::Hung);
}

/// A signal may set an event, where the process catches one; where it catches none, nobody can.
#[test]
fn an_event_that_only_the_waiting_thread_could_set() {
    let told = |caught: &str| {
        story(COUNT, |_, shot| {
            let waits = [
                "wait /usr/lib/python3.11/threading.py 327",
                "Event.wait /usr/lib/python3.11/threading.py 629",
                "compute app.py 40",
            ];
            let process = shot.process(10, 1, &futex("0x1").at(&waits));
            let status = &mut process.proc.status;
            status.insert("SigCgt".to_owned(), caught.to_owned());
        })
    };
    let of_python = told("0000000000000002");
    expect(&of_python, State::Hung, Cause::Deadlock, Some(10));
    assert_ne!(ask(&told("0000000000004002")).verdict, State::Hung);
}

/// One has begun a transaction and waits; another finds the database locked, sleeps and looks again. `start`: what the
/// lock covers.
#[test]
fn a_database_that_one_who_stands_still_has_locked() {
    let told = |start: u64, holder_sleeps: bool| {
        story(COUNT, |instant, shot| {
            let process = shot.process(10, 1, &polls(instant).at(&["insert job.py 30"]));
            descriptor(process, 5, "/data/jobs.db");
            let waits = if holder_sleeps {
                polls(0)
            } else {
                futex("0x1")
            };
            let wait = [
                "wait /usr/lib/python3.11/threading.py 327",
                "hold job.py 40",
            ];
            let holder = shot.process(20, 10, &waits.at(&wait));
            descriptor(holder, 5, "/data/jobs.db");
            shot.lock("/data/jobs.db", 20, &[]);
            let lock = shot.snapshot.ipc.locks.last_mut().unwrap();
            (lock.class, lock.start) = ("POSIX".to_owned(), start);
        })
    };
    let verdict = expect(
        &told(0x4000_0001, false),
        State::Hung,
        Cause::FileLock,
        Some(20),
    );
    assert_eq!(pids(&verdict), [10]);
    // It may be by design that one holds another kind of lock, and it may come back from a sleep.
    for snapshots in [told(0, false), told(0x4000_0001, true)] {
        assert_ne!(ask(&snapshots).verdict, State::Hung);
    }
}

/// Three take a lock by turns and keep it for longer than two looks: it goes on.
#[test]
fn a_file_lock_that_goes_from_one_to_another() {
    let snapshots = story(16, |instant, shot| {
        let turn = instant / 3;
        let pids = [20, 21, 22];
        let holder = pids[turn as usize % 3];
        for pid in pids {
            let doing = if pid == holder {
                polls(turn * 3).at(&["update app.py 10"])
            } else {
                let last = (0..turn).rev().find(|it| pids[*it as usize % 3] == pid);
                call("flock")
                    .at(&["locked app.py 9"])
                    .ran_until(last.map_or(0, |it| it * 3 + 3))
            };
            shot.process(pid, 1, &doing);
        }
        let waiters: Vec<i32> = pids.into_iter().filter(|pid| *pid != holder).collect();
        shot.lock("/data/lock", holder, &waiters);
    });
    for count in 1..=snapshots.len() {
        let seen = &snapshots[..count];
        // The list of locks may miss one that changes hands while it is read.
        let mut missed = seen.to_vec();
        missed[count - 1].ipc.locks.clear();
        for verdict in [ask(seen), ask(&missed)] {
            let (state, words) = (verdict.verdict, verdict.summary);
            assert_ne!(state, State::Hung, "after {count}: {words}");
        }
    }
}

/// A loop that tries again at two lines, the attempt and the sleep after it.
#[test]
fn a_database_that_is_tried_again_and_again() {
    let told = |is_one_loop: bool| {
        story(COUNT, |instant, shot| {
            let line = format!("log_metric job.py {}", 10 + instant % 4 / 3);
            let caller = format!(
                "main job.py {}",
                if is_one_loop { 30 } else { 30 + instant }
            );
            let process = shot.process(10, 1, &polls(instant).at(&[&line, &caller]));
            descriptor(process, 5, "/data/jobs.db");
            let holder = shot.process(20, 10, &futex("0x1").at(&["hold job.py 40"]));
            descriptor(holder, 5, "/data/jobs.db");
            shot.lock("/data/jobs.db", 20, &[]);
            let lock = shot.snapshot.ipc.locks.last_mut().unwrap();
            (lock.class, lock.start) = ("POSIX".to_owned(), 0x4000_0001);
        })
    };
    let verdict = ask(&told(true));
    let all = std::iter::once(&verdict).chain(&verdict.findings);
    assert!(
        all.clone().any(|it| it.cause == Cause::FileLock),
        "{}",
        verdict.summary
    );
    let elsewhere = ask(&told(false));
    let mut all = std::iter::once(&elsewhere).chain(&elsewhere.findings);
    assert!(
        all.all(|it| it.cause != Cause::FileLock),
        "{}",
        elsewhere.summary
    );
}

/// The others of its group wait in a meeting for the rank whose interpreter a thread keeps to itself.
#[test]
fn ranks_wait_for_one_whose_interpreter_a_thread_keeps() {
    let snapshots = story(12, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
        let meets = ["all_reduce wire.py 50", "main train.py 30"];
        for rank in [0, 2] {
            let pid = 20 + i32::try_from(rank).unwrap();
            shot.rank(rank, pid, &on("recvfrom", 3, "socket:[1]").at(&meets));
        }
        let taking = futex("0xa")
            .for_a_while()
            .ran_until(instant * 20)
            .at(&meets);
        let process = shot.rank(1, 21, &taking);
        let keeps = runs(instant).at(&["checksum data.py 4"]);
        add_thread(process, 31, &keeps.named("checksum").with_gil());
    });
    let verdict = expect(&snapshots, State::Hung, Cause::GilHeld, Some(21));
    assert_eq!(pids(&verdict), [20, 22]);
}
