//! Tasks that are over: which end the others follow from, as obituaries tell; and what is said where one of them is lost.

use model::{Circumstance, Ending, Obituary, Snapshot, Timestamp, Trigger};
use taskscope_diagnose::{Cause, End, History, State, Verdict, judge};

use crate::lacking;
use crate::story::{Shot, ask, call, futex, identity, polls, runs, story};

const COUNT: u32 = 6;
const RECORD: &str = "obituaries/1";
const BEGIN: i64 = 1_796_000_000_000_000;

pub(crate) fn killed(signal: i32) -> Ending {
    Ending::Killed {
        core_dumped: false,
        signal,
    }
}

/// The end of a process, the `order`-th, after the last snapshot.
pub(crate) fn end(order: u64, pid: i32, ending: Ending) -> Obituary {
    let after = i64::try_from(order).unwrap() + i64::from(COUNT) * 1000;
    Obituary {
        circumstances: Vec::new(),
        cpu: None,
        elapsed_ms: 0.0,
        ended_at: Timestamp::from_microseconds(BEGIN + after * 1000).unwrap(),
        ended_after: None,
        ending,
        last_snapshot: Some(at_work()[0].capture.id),
        memory: None,
        name: "job.py".to_owned(),
        order,
        ppid: 10,
        process: identity(pid),
        rank: u64::try_from(pid - 20).ok().filter(|rank| *rank < 3),
        role: None,
        stack: None,
        stack_at: None,
    }
}

/// Three ranks that work, under a launcher.
fn ranks(instant: u32, shot: &mut Shot) {
    shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
    for rank in 0..3 {
        let doing = runs(instant).at(&["forward train.py 15", "main train.py 29"]);
        shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
    }
}

fn at_work() -> Vec<Snapshot> {
    story(COUNT, ranks)
}

fn answer(snapshots: &[Snapshot], obituaries: &[Obituary]) -> Verdict {
    let ends = obituaries.iter().enumerate().map(|(index, obituary)| End {
        obituary,
        record: RECORD,
        index,
    });
    let history = History {
        snapshots: snapshots.iter().collect(),
        ends: ends.collect(),
    };
    judge(&[history]).verdict
}

/// Asserts the answer, that its evidence leads to the ends that it cites, and that where it was not told how
/// one of them ended, nobody else is blamed.
#[track_caller]
fn over(obituaries: &[Obituary], state: State, cause: Cause, culprit: Option<i32>) -> Verdict {
    let snapshots = at_work();
    let right = answer(&snapshots, obituaries);
    let named = |verdict: &Verdict| verdict.culprit.as_ref().map(|culprit| culprit.pid);
    assert_eq!(
        (right.verdict, right.cause, named(&right)),
        (state, cause, culprit),
        "{}",
        right.summary
    );
    let records = right.evidence.iter().filter(|it| it.snapshot == RECORD);
    for item in records {
        let place = item.path.strip_prefix("/obituaries/").unwrap();
        let index: usize = place.strip_suffix("/ending").unwrap().parse().unwrap();
        let ending = serde_json::to_value(obituaries[index].ending).unwrap();
        assert_eq!(item.value, ending);
        let mut less = obituaries.to_vec();
        less[index].ending = Ending::Unknown;
        let verdict = answer(&snapshots, &less);
        let same = named(&verdict) == named(&right) || named(&verdict).is_none();
        let untrue = verdict.verdict == State::Hung;
        assert!(
            same && !untrue,
            "{} instead of {}",
            verdict.summary,
            right.summary
        );
    }
    lacking::any_end(&snapshots, obituaries, &right);
    right
}

const FAILED: Ending = Ending::Exited(1);

#[test]
fn a_rank_that_crashed_first_is_named_and_not_those_that_the_launcher_ended() {
    let ends = [
        end(0, 21, killed(11)),
        end(1, 20, killed(15)),
        end(2, 22, killed(15)),
        end(3, 10, FAILED),
    ];
    let verdict = over(&ends, State::Failed, Cause::Crashed, Some(21));
    assert_eq!(verdict.culprit.unwrap().rank, Some(1));
    assert!(verdict.summary.contains("SIGSEGV"), "{}", verdict.summary);
}

#[test]
fn a_rank_that_raised_first_is_named_before_those_that_lost_it() {
    let ends = [
        end(0, 22, FAILED),
        end(1, 20, FAILED),
        end(2, 21, killed(6)),
        end(3, 10, FAILED),
    ];
    over(&ends, State::Failed, Cause::Crashed, Some(22));
}

#[test]
fn a_rank_that_ended_before_a_look_showed_it_as_one_is_dead() {
    let snapshots = story(COUNT, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
        for (rank, pid) in [(0, 20), (2, 22)] {
            let meets = futex("0x1").at(&["all_reduce dist.py 50", "main train.py 30"]);
            shot.rank(rank, pid, &meets);
        }
        shot.zombie(21, 10, Some(0), None);
    });
    let verdict = answer(&snapshots, &[end(1, 21, Ending::Exited(0))]);
    assert_eq!(
        (verdict.verdict, verdict.cause),
        (State::Hung, Cause::RankDead),
        "{}",
        verdict.summary
    );
    assert_eq!(crate::story::ranks(&verdict), [0, 2]);
    assert_eq!(verdict.culprit.and_then(|it| it.rank), Some(1));
    // Without it, nobody is blamed as a rank.
    assert_eq!(ask(&snapshots).culprit.and_then(|it| it.rank), None);
}

#[test]
fn what_was_the_matter_around_the_first_end_is_the_cause() {
    let mut first = end(0, 21, killed(9));
    let out = Circumstance::OutOfMemory {
        cgroup: Some("/job".to_owned()),
        holders: Vec::new(),
        limit_bytes: Some(1 << 30),
        usage_bytes: None,
    };
    first.circumstances.push(out);
    let ends = [first, end(1, 10, FAILED)];
    let verdict = over(&ends, State::Failed, Cause::OutOfMemory, Some(21));
    assert!(
        verdict.summary.contains("the limit of 1.0 GiB"),
        "{}",
        verdict.summary
    );
}

#[test]
fn a_main_process_that_failed_alone_is_the_first() {
    over(
        &[end(0, 10, Ending::Exited(3))],
        State::Failed,
        Cause::Crashed,
        Some(10),
    );
}

#[test]
fn a_task_that_ended_well_is_finished_whatever_a_worker_of_it_did() {
    let well = Ending::Exited(0);
    over(&[end(0, 10, well)], State::Finished, Cause::Finished, None);
    let ends = [end(0, 30, FAILED), end(1, 10, well)];
    over(&ends, State::Finished, Cause::Finished, None);
}

#[test]
fn a_task_that_was_told_to_end_is_judged_by_what_it_did_before() {
    for ending in [killed(15), killed(2), Ending::Exited(143)] {
        let verdict = over(
            &[end(0, 10, ending)],
            State::Healthy,
            Cause::Progressing,
            None,
        );
        let words = "was told to end";
        assert!(verdict.summary.contains(words), "{}", verdict.summary);
    }
}

/// A rank is gone while the others wait for it: how it ended is told, and without that it is only gone.
#[test]
fn a_rank_that_is_gone_is_told_of_with_its_end() {
    let snapshots = story(COUNT + 2, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
        for rank in 0..3 {
            if rank == 1 && instant > 2 {
                continue;
            }
            let doing = futex("0x1").at(&["all_reduce /lib/dist.py 50", "main train.py 30"]);
            let doing = doing.ran_until(instant.min(3));
            shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
        }
    });
    let ends = [end(0, 21, killed(9))];
    let told = answer(&snapshots, &ends);
    let untold = answer(&snapshots, &[]);
    for verdict in [&told, &untold] {
        let culprit = verdict.culprit.as_ref().map(|culprit| culprit.pid);
        assert_eq!(
            (verdict.verdict, verdict.cause, culprit),
            (State::Hung, Cause::RankDead, Some(21)),
            "{}",
            verdict.summary
        );
    }
    assert!(told.summary.contains("SIGKILL"), "{}", told.summary);
    assert!(untold.summary.contains("is gone"), "{}", untold.summary);
}

fn waits_for_a_pool() -> Vec<Snapshot> {
    story(COUNT, |instant, shot| {
        let waits = [
            "wait /usr/lib/python3.11/threading.py 320",
            "ApplyResult.wait /usr/lib/python3.11/multiprocessing/pool.py 762",
            "map /usr/lib/python3.11/multiprocessing/pool.py 367",
            "main app.py 40",
        ];
        let process = shot.process(10, 1, &futex("0x1").at(&waits));
        let repopulates = [
            "_wait_for_updates /usr/lib/python3.11/multiprocessing/pool.py 502",
            "_handle_workers /usr/lib/python3.11/multiprocessing/pool.py 522",
        ];
        let watches = polls(instant).named("pool").at(&repopulates);
        crate::story::add_thread(process, 11, &watches);
        let idle = ["get /usr/lib/python3.11/multiprocessing/queues.py 364"];
        let reads = crate::story::on("read", 3, "pipe:[1]").at(&idle);
        shot.process(21, 10, &reads);
        shot.pipe("pipe:[1]", &[21], &[10], 0);
    })
}

#[test]
fn a_worker_of_a_pool_that_ended_badly_before_anybody_looked() {
    let snapshots = waits_for_a_pool();
    for ending in [killed(9), FAILED] {
        let verdict = answer(&snapshots, &[end(0, 30, ending)]);
        let culprit = verdict.culprit.as_ref().map(|culprit| culprit.pid);
        assert_eq!(
            (verdict.verdict, verdict.cause, culprit),
            (State::Hung, Cause::Crashed, Some(30)),
            "{}",
            verdict.summary
        );
        assert_eq!(verdict.victims[0].pid, 10);
    }
    let well = answer(&snapshots, &[end(0, 30, Ending::Exited(0))]);
    assert_ne!(well.cause, Cause::Crashed);
}

#[test]
fn a_party_of_a_barrier_of_processes_that_ended_badly_before_anybody_looked() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(10, 1, &crate::story::waits_for(20).at(&["main app.py 3"]));
        for pid in [20, 21] {
            let waits = crate::story::semaphore("0xa0").at(&["wait barrier.py 13"]);
            shot.process(pid, 10, &waits);
        }
        shot.shared("0xa0", &[20, 21], &[10, 20, 21]);
    });
    let told = answer(&snapshots, &[end(0, 30, FAILED)]);
    let culprit = told.culprit.as_ref().map(|culprit| culprit.pid);
    let right = (State::Hung, Cause::Crashed, Some(30));
    assert_eq!(
        (told.verdict, told.cause, culprit),
        right,
        "{}",
        told.summary
    );
    let untold = answer(&snapshots, &[]);
    let right = (State::Hung, Cause::Deadlock);
    assert_eq!((untold.verdict, untold.cause), right, "{}", untold.summary);
}

/// A task whose newest snapshot shows nothing but what the kernel keeps of the main process, if that.
fn gone(main: Option<(Option<u8>, Option<u8>)>) -> Vec<Snapshot> {
    story(COUNT, |instant, shot| match main {
        _ if instant + 1 < COUNT => {
            shot.process(10, 1, &runs(instant).at(&["main app.py 29"]));
        }
        Some((code, signal)) => shot.zombie(10, 1, code, signal),
        None => {}
    })
}

/// Ends come after an instant that was asked for: until then, what the kernel keeps of the main process tells, or nothing does.
#[test]
fn what_was_known_at_the_last_snapshot_is_said_and_no_more() {
    let known = [
        (Some(0), None, State::Finished, "ended with status 0"),
        (Some(3), None, State::Failed, "ended with status 3"),
        (None, Some(9), State::Failed, "was ended by SIGKILL"),
        (None, Some(15), State::Finished, "was ended by SIGTERM"),
    ];
    for (code, signal, state, words) in known {
        let verdict = ask(&gone(Some((code, signal))));
        assert_eq!(verdict.verdict, state, "{}", verdict.summary);
        assert!(verdict.summary.contains(words), "{}", verdict.summary);
        assert!(!verdict.evidence.is_empty());
    }
    for untold in [gone(None), gone(Some((None, None)))] {
        let verdict = ask(&untold);
        assert_eq!(verdict.verdict, State::Finished, "{}", verdict.summary);
        let words = "up to this instant no record tells how they ended";
        assert!(verdict.summary.contains(words), "{}", verdict.summary);
    }
    let first = ask(&at_work()[..1]);
    assert_eq!(first.verdict, State::Unknown);
    let words = "Up to this instant there are too few snapshots to tell";
    assert!(first.summary.starts_with(words), "{}", first.summary);
}

/// Another process of the task may have failed before the main one did, and how it ended is not known yet.
#[test]
fn a_main_process_that_failed_is_blamed_where_nobody_else_can_have_been_the_first() {
    let told = |rank: Option<u8>| {
        story(COUNT, |instant, shot| {
            if instant + 1 < COUNT {
                ranks(instant, shot);
                return;
            }
            shot.zombie(10, 1, Some(1), None);
            for pid in 20..23 {
                shot.zombie(pid, 10, rank, None);
            }
        })
    };
    let culprit = |verdict: &Verdict| verdict.culprit.as_ref().map(|it| it.pid);
    let alone = ask(&told(Some(0)));
    assert_eq!((alone.verdict, culprit(&alone)), (State::Failed, Some(10)));
    let unclear = ask(&told(None));
    assert_eq!((unclear.verdict, culprit(&unclear)), (State::Failed, None));
    let words = "which process failed first is not known";
    assert!(unclear.summary.contains(words), "{}", unclear.summary);
}

/// A launcher that is told to end ends its ranks and then fails itself, which takes it a while, and one may outlive it.
#[test]
fn a_launcher_that_fails_because_it_was_told_to_end_is_judged_by_what_was_before() {
    let signalled = |after: u32, outlives: bool| {
        let snapshots = story(COUNT + 8, |instant, shot| {
            let trigger = match instant {
                8 => Trigger::Signal,
                _ => Trigger::Interval,
            };
            shot.snapshot.capture.trigger = Some(trigger);
            let is_over = instant > 8 + after;
            if !is_over {
                shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
            }
            for rank in 0..3 {
                let doing = match rank {
                    1 => call("openat")
                        .of_path("/data/fifo")
                        .in_kernel("wait_for_partner", 'S'),
                    _ => futex("0x1").at(&["all_reduce /lib/dist.py 50", "main train.py 30"]),
                };
                if rank == 1 && outlives || instant < 9 {
                    let pid = 20 + i32::try_from(rank).unwrap();
                    shot.rank(rank, pid, &doing.ran_until(2));
                }
            }
        });
        let at = |seconds: u32, order: u64, pid: i32, ending: Ending| {
            let ended_at = snapshots[8].capture.started_at.as_microseconds()
                + i64::from(seconds) * 1_000_000
                + i64::from(pid);
            Obituary {
                ended_at: Timestamp::from_microseconds(ended_at).unwrap(),
                ..end(order, pid, ending)
            }
        };
        let ends = [
            at(0, 0, 20, killed(15)),
            at(0, 1, 22, killed(15)),
            at(after, 2, 10, FAILED),
        ];
        answer(&snapshots, &ends)
    };
    for (after, outlives) in [(0, false), (6, false), (0, true), (6, true)] {
        let verdict = signalled(after, outlives);
        let culprit = verdict.culprit.as_ref().map(|culprit| culprit.pid);
        assert_eq!(
            (verdict.verdict, verdict.cause, culprit),
            (State::Hung, Cause::RankBehind, Some(21)),
            "{}",
            verdict.summary
        );
    }
}

/// The initializer of a pool fails: each worker ends as soon as it has begun, and another begins.
#[test]
fn a_pool_all_workers_of_which_end_as_soon_as_they_begin() {
    let told = |ending: Ending, one_lives: bool| {
        let mut snapshots = waits_for_a_pool();
        for (instant, snapshot) in snapshots.iter_mut().enumerate() {
            let last = snapshot.processes.pop().unwrap();
            let pid = if one_lives {
                21
            } else {
                100 + i32::try_from(instant).unwrap()
            };
            let process = model::Process {
                pid,
                identity: identity(pid),
                start_time_ticks: identity(pid).start_time_ticks,
                ..last
            };
            snapshot.processes.push(process);
            snapshot.ipc.endpoints.clear();
        }
        let ends = (0..6).map(|order| {
            let pid = 100 + i32::try_from(order).unwrap();
            let ended_at =
                Timestamp::from_microseconds(BEGIN + i64::from(pid - 99) * 900_000).unwrap();
            Obituary {
                ended_at,
                ..end(order, pid, ending)
            }
        });
        let ends: Vec<Obituary> = ends.collect();
        answer(&snapshots, &ends)
    };
    let verdict = told(FAILED, false);
    let culprit = verdict.culprit.as_ref().map(|culprit| culprit.pid);
    assert_eq!(
        (verdict.verdict, verdict.cause, culprit),
        (State::Hung, Cause::Crashed, Some(105)),
        "{}",
        verdict.summary
    );
    assert_eq!(verdict.victims[0].pid, 10);
    // Workers of a task each that do it, and a pool one of whose workers lives on.
    let well = [told(Ending::Exited(0), false), told(FAILED, true)];
    assert!(
        well.iter().all(|it| !it.summary.contains("soon after")),
        "{well:?}"
    );
}
