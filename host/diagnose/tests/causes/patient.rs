//! Jobs that take their time: what is long for one that is at work is no hang, and what never ends is told later.

use std::time::Duration;

use model::{Snapshot, TcpFacts, Trigger};
use taskscope_diagnose::{Cause, State};

use crate::story::{
    Doing, Shot, add_thread, ask, call, counts, descriptor, expect, futex, on, polls, runs,
    semaphore, story, waits_for,
};

#[track_caller]
fn is_well_from_the_third_on(snapshots: &[Snapshot]) {
    for count in 3..=snapshots.len() {
        let verdict = ask(&snapshots[..count]);
        assert_eq!(
            verdict.verdict,
            State::Healthy,
            "after {count}: {}",
            verdict.summary
        );
    }
}

/// Asserts that the task is called hung after so many snapshots and no fewer; never, where none are given.
#[track_caller]
fn hung_from(snapshots: &[Snapshot], first: Option<usize>) {
    for count in 1..=snapshots.len() {
        let verdict = ask(&snapshots[..count]);
        let is_hung = verdict.verdict == State::Hung;
        let is_right = is_hung == first.is_some_and(|first| count >= first);
        assert!(is_right, "after {count}: {}", verdict.summary);
    }
}

fn launcher(shot: &mut Shot, instant: u32) {
    shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
}

fn meets() -> Doing {
    futex("0x7f00").at(&["all_reduce /lib/dist.py 50", "main train.py 30"])
}

/// The main thread, and one that wants the interpreter's lock all the time, while `doing` of another thread keeps it.
fn keeping(shot: &mut Shot, instant: u32, doing: &Doing) {
    let taking = futex("0xa").for_a_while().ran_until(instant * 200);
    let process = shot.process(10, 1, &taking.at(&["main app.py 24"]));
    add_thread(process, 11, doing);
}

/// A call that sorts, adds or decodes keeps the interpreter's lock until it is done: that it takes five intervals is nothing.
#[test]
fn a_call_that_keeps_the_interpreter_lock_for_some_intervals() {
    let told = |ends: u32| {
        story(14, |instant, shot| {
            let line = if instant < ends { 16 } else { 17 };
            let place = format!("sort data.py {line}");
            keeping(shot, instant, &runs(instant).at(&[&place]).with_gil());
        })
    };
    hung_from(&told(6)[..12], None);
    hung_from(&told(14), Some(7));
}

/// On a machine that is busy with others the same call takes three times as long.
#[test]
fn a_call_that_keeps_the_interpreter_lock_for_want_of_a_processor() {
    let snapshots = story(24, |instant, shot| {
        let line = if instant < 15 { 16 } else { 17 };
        let place = format!("sort data.py {line}");
        let mut sorts = runs(instant).at(&[&place]).with_gil();
        sorts.ticks = u64::from(instant) * 33;
        keeping(shot, instant, &sorts);
        let thread = &mut shot.snapshot.processes[0].proc.threads[1];
        let (ran, waited) = (
            u64::from(instant) * 330_000_000,
            u64::from(instant) * 660_000_000,
        );
        thread.schedstat = Some(format!("{ran} {waited} {instant}"));
    });
    hung_from(&snapshots[..22], None);
}

/// The same calls with a short break between them, each of which takes long as the machine is busy: one break is enough.
#[test]
fn long_calls_that_keep_the_interpreter_lock_with_a_break_in_between() {
    let told = |pause: u64| {
        story(24, |instant, shot| {
            let calls = runs(instant).at(&["encode data.py 16"]).with_gil();
            keeping(shot, instant, &calls);
            let thread = &mut shot.snapshot.processes[0].proc.threads[1];
            // A break of half a second in each ten.
            let breaks = u64::from((instant + 5) / 10) * pause;
            let ran = u64::from(instant) * 450_000_000;
            let waited = u64::from(instant) * 550_000_000 - breaks;
            thread.schedstat = Some(format!("{ran} {waited} {instant}"));
        })
    };
    hung_from(&told(500_000_000), None);
    expect(&told(0), State::Hung, Cause::GilHeld, Some(10));
}

/// One call after another at one line, and at each look in it: between them the lock was free, as the time tells that it did not run.
#[test]
fn calls_that_keep_the_interpreter_lock_one_after_another() {
    let snapshots = story(16, |instant, shot| {
        let mut calls = runs(instant).at(&["encode data.py 16"]).with_gil();
        calls.ticks = u64::from(instant) * 80;
        keeping(shot, instant, &calls);
    });
    hung_from(&snapshots, None);
}

/// Ranks that begin at instant 1, one of which computes at one line before they meet for the first time.
fn first_meeting(count: u32, steps: Option<u32>, computes: impl Fn(u32) -> Doing) -> Vec<Snapshot> {
    story(count, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..3_i32 {
            let doing = match rank {
                _ if instant == 0 => continue,
                2 => computes(instant),
                _ => meets().ran_until(10),
            };
            let process = shot.rank(u32::try_from(rank).unwrap(), 20 + rank, &doing);
            if let Some(steps) = steps {
                counts(process, "main", steps);
            }
        }
    })
}

/// Before the first meeting a rank counts words, builds tables, compiles: nobody knows how long that takes. Where steps were counted
/// it is none of that.
#[test]
fn one_that_computes_at_one_line_before_the_first_meeting() {
    let computes = |instant: u32| runs(instant).at(&["count vocabulary.py 5"]).with_gil();
    hung_from(&first_meeting(22, None, computes), Some(17));
    hung_from(&first_meeting(14, Some(25), computes), Some(8));
}

/// What was seen at a later line before is in a loop, and has met the others before.
#[test]
fn one_that_turns_in_a_loop_that_has_come_round() {
    let told = |line: u32| {
        story(16, |instant, shot| {
            launcher(shot, instant);
            for rank in 0..3_i32 {
                let begins = format!("train train.py {line}");
                let doing = match rank {
                    _ if instant == 0 => continue,
                    _ if instant == 1 => polls(1).at(&[&begins]),
                    2 => runs(instant)
                        .at(&["evict cache.py 9", "train train.py 28"])
                        .with_gil(),
                    _ => futex("0x7f00").at(&["all_reduce /lib/dist.py 50", "train train.py 29"]),
                };
                shot.rank(u32::try_from(rank).unwrap(), 20 + rank, &doing);
            }
        })
    };
    hung_from(&told(30), Some(9));
    hung_from(&told(3), None);
}

/// The same where the task is watched from its begin, and a loop of its own is where it computes.
#[test]
fn one_that_computes_in_a_loop_before_the_first_meeting() {
    let computes = |instant: u32| {
        let line = if instant % 8 == 3 { 4 } else { 5 };
        let place = format!("vocabulary words.py {line}");
        runs(instant).at(&[&place, "main train.py 9"]).with_gil()
    };
    let mut snapshots = first_meeting(22, None, computes);
    snapshots.remove(0);
    snapshots[0].capture.trigger = Some(Trigger::Start);
    hung_from(&snapshots, Some(16));
}

/// One that asks a name server again and again pauses for a second or two each time. Where steps were counted, less is known to be
/// too long.
#[test]
fn one_that_pauses_again_and_again_while_the_others_meet() {
    let pauses = |instant: u32| {
        let doing = polls(0).at(&["resolve hosts.py 9", "main train.py 29"]);
        doing.ran_until(instant)
    };
    hung_from(&first_meeting(20, None, pauses), Some(17));
    hung_from(&first_meeting(14, Some(7), pauses), Some(8));
    // The others met in between, and no look fell into that.
    let again = story(24, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..3_i32 {
            let doing = match rank {
                2 => pauses(instant),
                _ => meets().ran_until(instant / 10 * 10),
            };
            shot.rank(u32::try_from(rank).unwrap(), 20 + rank, &doing);
        }
    });
    hung_from(&again, None);
    // A timeout of `poll(2)` is a pause as well.
    let asks = |_: u32| {
        let doing = call("poll").of_fds(&[5]).for_a_while();
        doing.at(&[
            "getaddrinfo /usr/lib/python3.11/socket.py 961",
            "main train.py 29",
        ])
    };
    hung_from(&first_meeting(14, None, asks), None);
}

/// Workers wait for the event that lets them begin, which the main process sets when it has read what they need.
#[test]
fn one_that_prepares_before_the_workers_may_begin() {
    let mut snapshots = story(14, |instant, shot| {
        shot.process(10, 1, &runs(instant).at(&["main index.py 11"]).with_gil());
        for pid in [20, 21].into_iter().filter(|_| instant > 0) {
            shot.process(pid, 10, &semaphore("0xb0").at(&["work index.py 4"]));
        }
        if instant > 0 {
            shot.shared("0xb0", &[20, 21], &[10, 20, 21]);
        }
    });
    snapshots[0].capture.trigger = Some(Trigger::Start);
    hung_from(&snapshots, None);
}

/// A parent waits for its children in turn, the first of which waits for its turn at a file that another has locked for a while.
#[test]
fn a_child_whose_turn_at_a_file_comes() {
    let snapshots = story(12, |instant, shot| {
        shot.process(10, 1, &waits_for(20).at(&["main turns.py 14"]));
        let waits = call("flock").at(&["work turns.py 7"]);
        shot.process(20, 10, &waits);
        let has = polls(0).at(&["work turns.py 8"]).ran_until(instant);
        let pid = if instant < 6 { 21 } else { 22 };
        shot.process(21, 10, if pid == 21 { &has } else { &waits });
        shot.process(22, 10, if pid == 22 { &has } else { &waits });
        let others: Vec<i32> = [20, 21, 22].into_iter().filter(|it| *it != pid).collect();
        shot.lock("/w/turn", pid, &others);
    });
    for count in 1..=snapshots.len() {
        let verdict = ask(&snapshots[..count]);
        assert_ne!(
            verdict.cause,
            Cause::WaitingForChild,
            "after {count}: {}",
            verdict.summary
        );
    }
}

/// Of those that run for leader, one has the lock and works now and then; the others wait for it as long as it lives.
#[test]
fn those_that_stand_by_for_the_lock_of_a_leader() {
    let told = |begin: u32, pace: u32| {
        story(20, |instant, shot| {
            shot.process(10, 1, &waits_for(20).at(&["main lead.py 14"]));
            let leads = polls(0).at(&["lead lead.py 8"]);
            let stands_by = call("flock").at(&["wait lead.py 7"]);
            if instant >= begin {
                shot.process(20, 10, &leads.ran_until(instant * pace));
                shot.process(21, 10, &stands_by.ran_until(1));
                shot.lock("/w/leader", 20, &[21]);
            }
        })
    };
    hung_from(&told(1, 2), None);
    // Two times a second, looked at each ten seconds.
    let mut seldom = told(1, 20);
    let begin = seldom[0].capture.started_at;
    for (count, snapshot) in (0..).zip(&mut seldom) {
        snapshot.capture.started_at = begin.after(Duration::from_secs(10 * count));
        snapshot.capture.interval_s = Some(10.0);
    }
    hung_from(&seldom, None);
    // What those did before is not known; and one that looks again every moment looks for what does not come.
    expect(&told(0, 2), State::Hung, Cause::FileLock, Some(20));
    expect(&told(1, 10), State::Hung, Cause::FileLock, Some(20));
}

/// A client of a service outside, with what the kernel says of its connection.
fn asks(count: u32, facts: impl Fn(u32) -> TcpFacts) -> Vec<Snapshot> {
    story(count, |instant, shot| {
        let reads = on("recvfrom", 4, "socket:[1]").at(&["fetch app.py 3"]);
        shot.process(10, 1, &reads);
        let ends = ("10.0.0.1:5000", "10.0.0.2:443", "established");
        shot.tcp("socket:[1]", &[10], ends, None);
        let tcp = shot.snapshot.ipc.endpoints[0].tcp.as_mut().unwrap();
        let facts = facts(instant);
        (tcp.bytes_received, tcp.bytes_acknowledged) =
            (facts.bytes_received, facts.bytes_acknowledged);
        (tcp.last_received_ms, tcp.last_sent_ms) = (facts.last_received_ms, facts.last_sent_ms);
    })
}

/// How long a stranger takes to answer nobody can know: a query, a model, a long poll.
#[test]
fn an_answer_of_a_stranger_that_takes_long() {
    let snapshots = asks(20, |instant| TcpFacts {
        bytes_acknowledged: Some(100),
        bytes_received: Some(0),
        last_received_ms: Some(instant * 1000),
        last_sent_ms: Some(instant * 1000),
        ..TcpFacts::default()
    });
    hung_from(&snapshots, Some(16));
}

/// One that was told something after all that it said is told more when there is more.
#[test]
fn news_of_a_stranger_that_come_seldom() {
    let snapshots = asks(14, |instant| TcpFacts {
        bytes_acknowledged: Some(4),
        bytes_received: Some(5),
        last_received_ms: Some(5000 + instant * 1000),
        last_sent_ms: Some(60_000 + instant * 1000),
        ..TcpFacts::default()
    });
    is_well_from_the_third_on(&snapshots);
}

/// What the main thread reads, another thread of the same process writes, when its time has come.
#[test]
fn one_that_a_thread_of_its_own_writes_to() {
    let snapshots = story(14, |_, shot| {
        let reads = on("recvfrom", 4, "socket:[1]").at(&["main app.py 9"]);
        let process = shot.process(10, 1, &reads);
        add_thread(process, 11, &polls(0).at(&["feed app.py 7"]));
        shot.unix(("socket:[1]", 10), ("socket:[2]", 10));
    });
    is_well_from_the_third_on(&snapshots);
}

/// One that reads a piece now and then, and pauses in between, lets who writes wait.
#[test]
fn a_reader_of_a_full_pipe_that_pauses() {
    let snapshots = story(12, |instant, shot| {
        shot.process(10, 1, &on("write", 4, "pipe:[1]").at(&["feed app.py 4"]));
        let pauses = polls(0).at(&["main filter.py 2"]).ran_until(instant / 4);
        shot.process(20, 10, &pauses);
        shot.pipe("pipe:[1]", &[20], &[10], 65536);
    });
    hung_from(&snapshots, None);
}

/// A rank that asks a service outside while the others meet.
#[test]
fn a_rank_that_waits_for_an_answer_of_a_stranger() {
    let told = |said_ms: u32| {
        story(14, |instant, shot| {
            launcher(shot, instant);
            for rank in 0..3_i32 {
                let doing = match rank {
                    0 => on("recvfrom", 9, "socket:[90]")
                        .at(&["query rows.py 7", "main train.py 29"]),
                    _ => meets(),
                };
                shot.rank(u32::try_from(rank).unwrap(), 20 + rank, &doing);
            }
            let ends = ("10.0.0.1:5000", "10.0.0.2:5432", "established");
            shot.tcp("socket:[90]", &[20], ends, None);
            let tcp = shot.snapshot.ipc.endpoints[0].tcp.as_mut().unwrap();
            (tcp.bytes_received, tcp.last_received_ms) = (Some(400), Some(90_000));
            tcp.last_sent_ms = Some(said_ms + instant * 1000);
        })
    };
    hung_from(&told(0), None);
    expect(&told(60_000), State::Hung, Cause::RankBehind, Some(20));
}

/// Who polls the output of a child waits for the child, and the child for its own.
#[test]
fn one_that_polls_the_output_of_a_child_which_waits_for_its_own() {
    let snapshots = story(12, |_, shot| {
        let polls_it = call("pselect6").of_fds(&[5]).at(&["main remote.py 7"]);
        let process = shot.process(10, 1, &polls_it);
        descriptor(process, 5, "pipe:[1]");
        shot.process(20, 10, &waits_for(21).named("sh"));
        shot.process(21, 20, &polls(0).named("sleep"));
        shot.pipe("pipe:[1]", &[10], &[20, 21], 0);
    });
    hung_from(&snapshots, None);
}

/// Somebody stops a task for a moment, to look at it or to copy it, and lets it go on.
#[test]
fn one_that_is_stopped_for_a_moment() {
    let told = |ends: u32| {
        story(12, |instant, shot| {
            let is_stopped = (4..ends).contains(&instant);
            let works = runs(instant.min(4)).at(&["work app.py 9"]);
            let stopped = call("read")
                .in_kernel("do_signal_stop", 'T')
                .at(&["work app.py 9"]);
            let goes_on = runs(instant).at(&["work app.py 10"]);
            let doing = match (is_stopped, instant < 4) {
                (true, _) => stopped.ran_until(200),
                (false, true) => works,
                (false, false) => goes_on,
            };
            shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
            shot.process(20, 10, &doing);
        })
    };
    hung_from(&told(7), None);
    hung_from(&told(12), Some(8));
}

/// An epoch is longer for one rank: it works a little and waits a little, and is waiting at each look.
#[test]
fn one_that_works_by_turns_for_longer_than_the_others() {
    let snapshots = story(16, |instant, shot| {
        launcher(shot, instant);
        for rank in 0..3_i32 {
            let round = instant - instant % 5;
            let doing = match rank {
                0 => polls(instant).at(&["batch train.py 6", "main train.py 29"]),
                _ => meets().ran_until(if instant < 6 { instant } else { round }),
            };
            shot.rank(u32::try_from(rank).unwrap(), 20 + rank, &doing);
        }
    });
    hung_from(&snapshots, None);
}
