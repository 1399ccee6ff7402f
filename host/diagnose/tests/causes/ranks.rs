//! Ranks: behind, dead, stopped, in disjoint groups; ordered by progress, never by how many they are.

use taskscope_diagnose::{Cause, State};

use crate::story::{
    Doing, Shot, ask, call, counts, expect, futex, on, polls, ranks, runs, semaphore, story,
};

const COUNT: u32 = 8;

fn launcher(shot: &mut Shot, instant: u32) {
    shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
}

/// A rank that waits for the others in a collective, since it came there.
fn meets() -> Doing {
    futex("0x7f00")
        .at(&[
            "all_reduce /lib/dist.py 50",
            "step train.py 12",
            "main train.py 30",
        ])
        .ran_until(5)
}

/// The same without a stack that says so: it reads from the launcher.
fn reads(rank: i32) -> Doing {
    on("recvfrom", 3, &format!("socket:[{rank}]"))
        .at(&["exchange wire.py 5", "step train.py 12", "main train.py 30"])
        .ran_until(5)
}

#[test]
fn one_that_reads_a_file_while_the_others_meet_is_behind() {
    let snapshots = story(COUNT, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..4 {
            let doing = if rank == 2 {
                call("openat")
                    .of_path("/data/fifo")
                    .in_kernel("wait_for_partner", 'S')
                    .at(&["load data.py 7", "step train.py 11", "main train.py 30"])
            } else {
                meets()
            };
            shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
        }
    });
    let verdict = expect(&snapshots, State::Hung, Cause::RankBehind, Some(22));
    assert_eq!(ranks(&verdict), [0, 1, 3]);
    assert!(
        verdict.summary.contains("rank 2 is behind")
            && verdict.summary.contains("load (data.py:7)"),
        "{}",
        verdict.summary
    );
}

#[test]
fn thirty_that_poll_are_behind_two_that_wait() {
    let snapshots = story(COUNT, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..32 {
            let doing = if rank == 5 || rank == 17 {
                meets()
            } else {
                polls(instant).at(&[
                    "wait_for shard.py 3",
                    "step train.py 11",
                    "main train.py 30",
                ])
            };
            shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
        }
    });
    let verdict = expect(&snapshots, State::Hung, Cause::RankBehind, Some(20));
    assert_eq!(ranks(&verdict), [5, 17]);
    assert!(
        verdict
            .summary
            .starts_with("ranks 0-4,6-16,18-31 are behind"),
        "{}",
        verdict.summary
    );
}

#[test]
fn the_step_clock_goes_before_the_place() {
    // All are in the same call; one has counted less.
    let snapshots = story(COUNT, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..3 {
            let process = shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &meets());
            counts(process, "main", if rank == 1 { 40 } else { 41 });
        }
    });
    let verdict = expect(&snapshots, State::Hung, Cause::RankBehind, Some(21));
    assert_eq!(ranks(&verdict), [0, 2]);
}

#[test]
fn without_names_that_tell_who_reads_from_the_task_waits_and_who_asks_elsewhere_is_behind() {
    let snapshots = story(COUNT, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..3_i32 {
            let doing = if rank == 0 {
                on("connect", 4, "socket:[900]").at(&["fetch features.py 15", "main train.py 29"])
            } else {
                reads(rank)
            };
            shot.rank(u32::try_from(rank).unwrap(), 20 + rank, &doing);
            let (mine, other) = (
                format!("socket:[{rank}]"),
                format!("socket:[{}]", rank + 100),
            );
            shot.tcp(
                &mine,
                &[20 + rank],
                ("127.0.0.1:1", "127.0.0.1:2", "established"),
                Some(&other),
            );
            shot.tcp(
                &other,
                &[10],
                ("127.0.0.1:2", "127.0.0.1:1", "established"),
                Some(&mine),
            );
        }
        shot.tcp(
            "socket:[900]",
            &[20],
            ("127.0.0.1:9", "10.0.0.5:443", "syn_sent"),
            None,
        );
    });
    let verdict = expect(&snapshots, State::Hung, Cause::RankBehind, Some(20));
    assert_eq!(ranks(&verdict), [1, 2]);
}

#[test]
fn one_that_turns_in_a_loop_is_behind_those_that_wait() {
    let snapshots = story(COUNT, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..3 {
            let doing = if rank == 1 {
                runs(instant)
                    .at(&["spin train.py 44", "main train.py 29"])
                    .with_gil()
            } else {
                meets()
            };
            shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
        }
    });
    let verdict = expect(&snapshots, State::Hung, Cause::RankBehind, Some(21));
    assert_eq!(ranks(&verdict), [0, 2]);
}

#[test]
fn the_thread_that_a_rank_waits_for_is_named() {
    let snapshots = story(COUNT, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..3 {
            let pid = 20 + i32::try_from(rank).unwrap();
            if rank == 2 {
                let waits = futex("0x1").at(&[
                    "wait /usr/lib/python3.11/threading.py 320",
                    "get /usr/lib/python3.11/queue.py 171",
                    "main train.py 28",
                ]);
                let process = shot.rank(rank, pid, &waits);
                crate::story::add_thread(
                    process,
                    77,
                    &futex("0x2").named("prefetch").at(&[
                        "wait /usr/lib/python3.11/threading.py 320",
                        "read_ahead data.py 60",
                    ]),
                );
            } else {
                shot.rank(rank, pid, &meets());
            }
        }
    });
    let verdict = ask(&snapshots);
    assert_eq!(
        (verdict.cause, verdict.culprit.as_ref().unwrap().rank),
        (Cause::RankBehind, Some(2))
    );
    let culprit = verdict.culprit.unwrap();
    assert_eq!(
        (culprit.thread, culprit.frame.unwrap().function.as_str()),
        (Some(77), "read_ahead")
    );
    assert_eq!(verdict.victims.len(), 2);
}

#[test]
fn the_worker_that_a_rank_waits_for_is_named_in_the_sentence() {
    let snapshots = story(COUNT, |instant, shot| {
        launcher(shot, instant);
        shot.rank(0, 20, &meets());
        shot.rank(
            1,
            21,
            &on("read", 5, "pipe:[1]").at(&[
                "recv /usr/lib/python3.11/multiprocessing/connection.py 395",
                "main train.py 28",
            ]),
        );
        let worker = shot.process(30, 21, &polls(instant).at(&["fetch_shard data.py 16"]));
        worker
            .distributed_environment
            .insert("RANK".to_owned(), "1".to_owned());
        shot.pipe("pipe:[1]", &[21], &[30], 0);
    });
    let verdict = expect(&snapshots, State::Hung, Cause::RankBehind, Some(21));
    assert!(
        verdict.summary.contains("process 30")
            && verdict.summary.contains("fetch_shard (data.py:16)"),
        "{}",
        verdict.summary
    );
    assert_eq!(ranks(&verdict), [0]);
}

#[test]
fn a_rank_that_ended_while_the_others_wait_is_dead() {
    let snapshots = story(COUNT, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..4 {
            let is_there = rank != 2 || instant < 3;
            if is_there {
                shot.rank(
                    rank,
                    20 + i32::try_from(rank).unwrap(),
                    &meets().ran_until(instant.min(3)),
                );
            }
        }
    });
    let verdict = expect(&snapshots, State::Hung, Cause::RankDead, Some(22));
    assert_eq!(ranks(&verdict), [0, 1, 3]);
}

#[test]
fn a_killed_rank_that_nobody_asks_for_is_dead() {
    let snapshots = story(COUNT, |instant, shot| {
        launcher(shot, instant);
        shot.rank(0, 20, &meets());
        if instant < 2 {
            shot.rank(1, 21, &meets().ran_until(instant));
        } else {
            shot.zombie(21, 10, None, Some(9));
        }
        shot.rank(2, 22, &meets());
    });
    let verdict = expect(&snapshots, State::Hung, Cause::RankDead, Some(21));
    assert!(verdict.summary.contains("SIGKILL"), "{}", verdict.summary);
    assert_eq!(ranks(&verdict), [0, 2]);
}

#[test]
fn the_first_of_several_dead_ranks_is_to_blame() {
    let snapshots = story(COUNT, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..4_u32 {
            let end = match rank {
                1 => 3,
                3 => 2,
                _ => COUNT,
            };
            if instant < end {
                shot.rank(
                    rank,
                    20 + i32::try_from(rank).unwrap(),
                    &meets().ran_until(instant.min(3)),
                );
            }
        }
    });
    let verdict = expect(&snapshots, State::Hung, Cause::RankDead, Some(23));
    assert_eq!(ranks(&verdict), [0, 2]);
}

#[test]
fn each_of_two_groups_has_its_own_straggler() {
    let snapshots = story(COUNT, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..4 {
            let pid = 20 + i32::try_from(rank).unwrap();
            let behind = rank == 1 || rank == 2;
            let doing = if behind {
                polls(instant).at(&["wait_for shard.py 3", "main train.py 29"])
            } else {
                meets()
            };
            shot.rank(rank, pid, &doing);
            let group = if rank < 2 { "one" } else { "two" };
            let annotations = &mut shot.snapshot.annotations;
            let last = annotations.len() - 2;
            annotations[last].value = model::Value::Text(group.to_owned());
        }
    });
    let verdict = ask(&snapshots);
    assert_eq!(
        (verdict.cause, ranks(&verdict)),
        (Cause::RankBehind, vec![0])
    );
    assert_eq!(verdict.culprit.unwrap().rank, Some(1));
    let other = verdict
        .findings
        .iter()
        .find(|finding| finding.cause == Cause::RankBehind)
        .unwrap();
    assert_eq!(
        (other.culprit.as_ref().unwrap().rank, ranks(other)),
        (Some(2), vec![3])
    );
}

#[test]
fn all_in_the_same_collective_blames_nobody() {
    let snapshots = story(COUNT, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..3 {
            shot.rank(
                rank,
                20 + i32::try_from(rank).unwrap(),
                &meets().ran_until(1),
            );
        }
    });
    let verdict = ask(&snapshots);
    assert_eq!(
        (verdict.cause, &verdict.culprit),
        (Cause::Unknown, &None),
        "{}",
        verdict.summary
    );
}

#[test]
fn ranks_that_advance_slowly_are_well() {
    let snapshots = story(COUNT, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..3 {
            let process = shot.rank(
                rank,
                20 + i32::try_from(rank).unwrap(),
                &meets().ran_until(instant),
            );
            counts(process, "main", instant / 3);
        }
    });
    assert_eq!(ask(&snapshots).verdict, State::Healthy);
}

#[test]
fn brothers_at_a_barrier_wait_for_the_one_that_turns() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(
            10,
            1,
            &crate::story::waits_for(20)
                .at(&["join /usr/lib/python3.11/multiprocessing/process.py 149"]),
        );
        for pid in [20, 21, 22] {
            shot.process(
                pid,
                10,
                &semaphore("0xb0").at(&[
                    "wait /usr/lib/python3.11/multiprocessing/synchronize.py 268",
                    "work sim.py 20",
                ]),
            );
        }
        shot.process(
            23,
            10,
            &runs(instant)
                .at(&["shrink sim.py 9", "work sim.py 18"])
                .with_gil(),
        );
        shot.shared("0xb0", &[20, 21, 22], &[10, 20, 21, 22, 23]);
    });
    let verdict = expect(&snapshots, State::Hung, Cause::BusyLoop, Some(23));
    assert_eq!(crate::story::pids(&verdict), [20, 21, 22]);
}

#[test]
fn brothers_wait_for_the_one_that_spins_on_a_flag_in_shared_memory() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["main sim.py 50"]));
        shot.process(
            20,
            10,
            &semaphore("0xb0").at(&[
                "acquire /usr/lib/python3.11/multiprocessing/synchronize.py 57",
                "work sim.py 20",
            ]),
        );
        shot.process(
            21,
            10,
            &runs(instant)
                .at(&["until_ready sim.py 31", "work sim.py 18"])
                .with_gil(),
        );
        shot.shared("0xb0", &[20], &[20, 21]);
    });
    expect(&snapshots, State::Hung, Cause::BusyLoop, Some(21));
}

#[test]
fn the_one_that_spins_without_a_stack_is_found_by_what_it_maps() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &crate::story::waits_for(20).at(&["main sim.py 50"]));
        shot.process(20, 10, &semaphore("0xb0").at(&["work sim.py 20"]));
        shot.process(21, 10, &semaphore("0xb0").at(&["work sim.py 20"]));
        shot.process(22, 10, &runs(instant).at(&["merge sim.py 77"]).with_gil());
        shot.shared("0xb0", &[20, 21], &[10, 20, 21, 22]);
    });
    let verdict = expect(&snapshots, State::Hung, Cause::BusyLoop, Some(22));
    assert_eq!(crate::story::pids(&verdict), [20, 21]);
}

#[test]
fn one_alone_that_counted_and_turns_at_one_line_instead() {
    let snapshots = story(16, |instant, shot| {
        let process = if instant < 6 {
            shot.process(10, 1, &polls(instant).at(&["main train.py 30"]))
        } else {
            shot.process(
                10,
                1,
                &runs(instant)
                    .at(&["until_flag train.py 3", "main train.py 31"])
                    .with_gil(),
            )
        };
        counts(process, "main", instant.min(6) * 10);
    });
    expect(&snapshots[..8], State::Healthy, Cause::Progressing, None);
    expect(&snapshots, State::Hung, Cause::BusyLoop, Some(10));
}

/// Looked at for the first time just before it came to a stand: how long a step takes was seen, and is enough to tell.
#[test]
fn a_stand_soon_after_the_first_look_is_told_by_how_long_a_step_takes() {
    let told = |counts_steps: bool| {
        story(7, |instant, shot| {
            launcher(shot, instant);
            for rank in 0..3_i32 {
                let step = ["step train.py 12", "main train.py 30"];
                let doing = match (instant, rank) {
                    (0, _) => polls(0).at(&step),
                    (_, 2) => polls(instant).at(&["wait_for shard.py 3", step[0], step[1]]),
                    _ => futex("0x7f00")
                        .at(&["all_reduce /lib/dist.py 50", step[0], step[1]])
                        .ran_until(1),
                };
                let process = shot.rank(u32::try_from(rank).unwrap(), 20 + rank, &doing);
                if counts_steps {
                    counts(process, "main", if instant == 0 { 1 } else { 6 });
                }
            }
        })
    };
    expect(&told(true), State::Hung, Cause::RankBehind, Some(22));
    assert_ne!(ask(&told(false)).verdict, State::Hung);
}

/// For how long one sleeps is not seen: a pause before it asks a service again ends, so that it takes twice as long to call it behind.
#[test]
fn one_that_sleeps_in_one_piece_while_the_others_meet_may_come_back() {
    let begin = 3;
    let snapshots = story(12, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..3 {
            let doing = match rank {
                _ if instant < begin => {
                    polls(instant).at(&["forward train.py 15", "main train.py 29"])
                }
                1 => polls(begin).at(&["pause client.py 15", "main train.py 29"]),
                _ => meets().ran_until(begin * 10),
            };
            let process = shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
            counts(process, "main", instant.min(begin));
        }
    });
    for count in 1..=snapshots.len() {
        let verdict = ask(&snapshots[..count]);
        let intervals = count.saturating_sub(4);
        let is_hung = verdict.verdict == State::Hung;
        assert_eq!(
            is_hung,
            intervals >= 6,
            "after {count}: {}",
            verdict.summary
        );
    }
    let verdict = expect(&snapshots, State::Hung, Cause::RankBehind, Some(21));
    assert_eq!(ranks(&verdict), [0, 2]);
}

/// A download that trickles in from outside gets on, however little comes; one that has dried up does not.
#[test]
fn one_that_hears_a_little_from_outside_while_the_others_meet() {
    let told = |last_heard_ms: u32| {
        story(COUNT, |instant, shot| {
            launcher(shot, instant);
            for rank in 0..3 {
                let fetches =
                    on("recvfrom", 9, "socket:[90]").at(&["fetch data.py 7", "main train.py 29"]);
                let doing = if rank == 0 {
                    fetches.ran_until(instant * 10)
                } else {
                    meets()
                };
                shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
            }
            let facts = ("10.0.0.1:5000", "10.0.0.2:443", "established");
            shot.tcp("socket:[90]", &[20], facts, None);
            let tcp = shot.snapshot.ipc.endpoints[0].tcp.as_mut().unwrap();
            (tcp.bytes_received, tcp.last_received_ms) = (Some(4000), Some(last_heard_ms));
        })
    };
    let trickles = told(700);
    for count in 1..=trickles.len() {
        assert_ne!(ask(&trickles[..count]).verdict, State::Hung);
    }
    expect(&told(60_000), State::Hung, Cause::RankBehind, Some(20));
}

/// Who serves requests tells the others what came: as long as none comes they wait by design.
#[test]
fn one_that_waits_for_requests_while_the_others_wait_to_be_told() {
    let snapshots = story(12, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..3 {
            let doing = match rank {
                0 => call("accept4").at(&["serve server.py 7", "main server.py 29"]),
                _ => on("recvfrom", 3, "socket:[9]")
                    .at(&["broadcast wire.py 5", "main server.py 30"]),
            };
            shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing.ran_until(5));
        }
    });
    for count in 1..=snapshots.len() {
        assert_ne!(ask(&snapshots[..count]).verdict, State::Hung);
    }
}

/// An evaluation that works and waits by turns, and is waiting at each look, is no loop that turns.
#[test]
fn one_alone_that_counted_and_works_by_turns() {
    let snapshots = story(16, |instant, shot| {
        let mut doing = polls(instant).at(&["evaluate train.py 3", "main train.py 29"]);
        doing.ticks = u64::from(instant) * 20;
        let process = shot.process(10, 1, &doing);
        counts(process, "main", instant.min(3) * 5);
    });
    for count in 1..=snapshots.len() {
        assert_ne!(ask(&snapshots[..count]).verdict, State::Hung);
    }
}

/// On a busy machine the first step takes long because nobody is given a processor: that says nothing of how long one takes.
#[test]
fn a_step_that_was_long_for_want_of_a_processor_is_no_measure() {
    let told = |waited_for_a_processor: bool| {
        story(10, |instant, shot| {
            launcher(shot, instant);
            for rank in 0..3_i32 {
                let step = ["step train.py 12", "main train.py 30"];
                let doing = match (instant, rank) {
                    (0..4, _) => polls(instant).at(&step),
                    (_, 2) => polls(instant).at(&["wait_for shard.py 3", step[0], step[1]]),
                    _ => meets().ran_until(40),
                };
                let process = shot.rank(u32::try_from(rank).unwrap(), 20 + rank, &doing);
                counts(process, "main", if instant < 4 { 1 } else { 2 });
                if waited_for_a_processor {
                    let waited = u64::from(instant.min(4)) * 980_000_000;
                    let ran = doing.ran;
                    process.proc.threads[0].schedstat =
                        Some(format!("{} {waited} {ran}", ran * 1000));
                }
            }
        })
    };
    expect(&told(true), State::Hung, Cause::RankBehind, Some(22));
    assert_ne!(ask(&told(false)).verdict, State::Hung);
}

/// What is done once belongs to the first step: where some more were quick, it is no measure.
#[test]
fn a_first_step_that_was_long_is_no_measure_of_later_ones() {
    let told = |later: u32| {
        story(11, |instant, shot| {
            launcher(shot, instant);
            for rank in 0..3_i32 {
                let step = ["step train.py 12", "main train.py 30"];
                let doing = match (instant, rank) {
                    (0..=5, _) => polls(instant).at(&step),
                    (_, 2) => polls(instant).at(&["wait_for shard.py 3", step[0], step[1]]),
                    _ => meets().ran_until(50),
                };
                let process = shot.rank(u32::try_from(rank).unwrap(), 20 + rank, &doing);
                let counted = match instant {
                    0..4 => 0,
                    4 => 1,
                    _ => 1 + later,
                };
                counts(process, "main", counted);
            }
        })
    };
    expect(&told(4), State::Hung, Cause::RankBehind, Some(22));
    assert_ne!(ask(&told(0)).verdict, State::Hung);
}

/// A call of a library that computes without the interpreter's lock is work, and may take long; so is none that keeps the lock.
#[test]
fn one_in_a_long_call_of_a_library_while_the_others_meet() {
    let told = |count: u32, keeps_lock: bool| {
        story(count, |instant, shot| {
            launcher(shot, instant);
            for rank in 0..3 {
                let mut computes = runs(instant).at(&["score metrics.py 7", "main train.py 29"]);
                if keeps_lock {
                    computes = computes.with_gil();
                }
                let doing = if rank == 2 { computes } else { meets() };
                shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
            }
        })
    };
    for count in 1..=12 {
        let verdict = ask(&told(count, false));
        assert_ne!(
            verdict.verdict,
            State::Hung,
            "after {count}: {}",
            verdict.summary
        );
    }
    expect(&told(8, true), State::Hung, Cause::RankBehind, Some(22));
    expect(&told(16, false), State::Hung, Cause::RankBehind, Some(22));
}

/// A rank whose end nobody can bring about holds up the others from when they wait for it: it is told of as what it is for them, and
/// never as something else before.
#[test]
fn a_rank_at_a_dead_end_is_behind_as_soon_as_the_others_are_seen_to_wait() {
    let told = |instants: u32| {
        story(instants, |instant, shot| {
            launcher(shot, instant);
            for rank in 0..3 {
                let doing = if rank == 1 {
                    let wait = [
                        "wait /usr/lib/python3.11/threading.py 327",
                        "load data.py 7",
                        "main train.py 29",
                    ];
                    futex("0x7f01").at(&wait)
                } else if instant < 2 {
                    runs(instant).at(&["forward train.py 11", "main train.py 30"])
                } else {
                    meets()
                };
                let pid = 20 + i32::try_from(rank).unwrap();
                let process = shot.rank(rank, pid, &doing.ran_until(instant.min(2)));
                let mask = "0000000000000002".to_owned();
                process.proc.status.insert("SigCgt".to_owned(), mask);
            }
        })
    };
    assert_ne!(ask(&told(5)).verdict, State::Hung);
    let verdict = expect(&told(6), State::Hung, Cause::RankBehind, Some(21));
    assert_eq!(ranks(&verdict), [0, 2]);
    let others = verdict.findings.iter().map(|it| it.cause);
    assert_eq!(others.collect::<Vec<Cause>>(), [Cause::Deadlock]);
}

/// It looks again and again by calling itself: it is deeper each time, and nowhere else.
#[test]
fn one_that_tries_again_by_calling_itself_while_the_others_meet() {
    let told = |deepens: bool| {
        story(COUNT, |instant, shot| {
            launcher(shot, instant);
            for rank in 0..3 {
                let pid = 20 + i32::try_from(rank).unwrap();
                if rank != 1 {
                    shot.rank(rank, pid, &meets().ran_until(2));
                    continue;
                }
                let depth = if deepens { instant } else { 7 - instant };
                let mut stack = vec!["fetch data.py 7"; 2 + depth as usize];
                stack.extend(["step train.py 11", "main train.py 30"]);
                shot.rank(rank, pid, &polls(instant).at(&stack));
            }
        })
    };
    let verdict = expect(&told(true), State::Hung, Cause::RankBehind, Some(21));
    assert_eq!(ranks(&verdict), [0, 2]);
    // One that comes back from its calls gets on.
    assert_eq!(ask(&told(false)).verdict, State::Healthy);
}

/// The others look for a file of each in a barrier of their own, and one has failed: that they look again is no work.
#[test]
fn ranks_that_poll_in_a_barrier_for_one_that_failed() {
    let told = |status: u8, moves: bool| {
        story(COUNT, |instant, shot| {
            launcher(shot, instant);
            for rank in 0..3 {
                let pid = 20 + i32::try_from(rank).unwrap();
                if rank == 1 && instant > 2 {
                    shot.zombie(pid, 10, Some(status), None);
                    continue;
                }
                let inner = format!("<genexpr> job.py {}", 6 + instant % 2);
                let outer = format!("main job.py {}", if moves { 30 + instant } else { 30 });
                let stack = [inner.as_str(), "file_barrier job.py 6", outer.as_str()];
                shot.rank(rank, pid, &polls(instant).at(&stack[..]));
            }
        })
    };
    let verdict = expect(&told(3, false), State::Hung, Cause::RankDead, Some(21));
    assert_eq!(ranks(&verdict), [0, 2]);
    // One that was done may well be; and they may be at another barrier each time.
    assert_ne!(ask(&told(0, false)).verdict, State::Hung);
    assert_ne!(ask(&told(3, true)).verdict, State::Hung);
}

/// One rank has a batch more than the others: all are in a meeting, and from where each calls it tells what is the matter.
#[test]
fn ranks_that_meet_at_different_lines_are_told_with_where_each_calls() {
    let snapshots = story(COUNT, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..3 {
            let line = if rank == 0 { 12 } else { 14 };
            let caller = format!("train train.py {line}");
            let stack = [
                "recv wire.py 3",
                "all_reduce wire.py 50",
                &caller,
                "main train.py 30",
            ];
            let pid = 20 + i32::try_from(rank).unwrap();
            shot.rank(rank, pid, &futex("0x7f00").at(&stack).ran_until(5));
        }
    });
    let verdict = expect(&snapshots, State::Hung, Cause::RankBehind, Some(20));
    let words = [
        "rank 0 is behind",
        "called in train (train.py:12)",
        "ranks 1,2 wait in all_reduce, called in train (train.py:14)",
    ];
    for words in words {
        assert!(verdict.summary.contains(words), "{}", verdict.summary);
    }
}

/// What a rank is at whose stack could not be read is not known where it waits as those do that meet: another that is elsewhere is the
/// one to blame, or nobody.
#[test]
fn one_whose_stack_was_not_read_is_behind_where_it_waits_otherwise_alone() {
    let told = |unread: &Doing, is_other_elsewhere: bool| {
        story(COUNT, |instant, shot| {
            launcher(shot, instant);
            for rank in 0..4 {
                let doing = match rank {
                    1 => unread.clone(),
                    2 if is_other_elsewhere => {
                        let stack = ["load data.py 7", "step train.py 11", "main train.py 30"];
                        on("read", 7, "/data/shard").at(&stack).ran_until(5)
                    }
                    _ => meets(),
                };
                shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
            }
        })
    };
    let alike = futex("0x7f00").ran_until(5);
    expect(
        &told(&alike, true),
        State::Hung,
        Cause::RankBehind,
        Some(22),
    );
    assert_eq!(ask(&told(&alike, false)).culprit, None);
    let fifo = call("openat").of_path("/data/fifo");
    let elsewhere = fifo.in_kernel("wait_for_partner", 'S').ran_until(5);
    let verdict = expect(
        &told(&elsewhere, false),
        State::Hung,
        Cause::RankBehind,
        Some(21),
    );
    assert_eq!(ranks(&verdict), [0, 2, 3]);
}
