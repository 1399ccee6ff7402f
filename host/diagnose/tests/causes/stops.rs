//! Processes that are stopped, and storage that does not answer.

use taskscope_diagnose::{Cause, State};

use crate::story::{ask, call, expect, futex, on, pids, polls, ranks, story, waits_for};

const COUNT: u32 = 6;

#[test]
fn a_stopped_rank_holds_up_the_others() {
    let snapshots = story(8, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
        for rank in 0..3 {
            let doing = futex("0x1").at(&["all_reduce /lib/dist.py 50", "main train.py 30"]);
            let doing = if rank == 1 {
                doing.in_kernel("do_signal_stop", 'T')
            } else {
                doing
            };
            shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
        }
    });
    let verdict = expect(&snapshots, State::Hung, Cause::Stopped, Some(21));
    assert_eq!(ranks(&verdict), [0, 2]);
}

#[test]
fn a_stopped_child_that_its_parent_waits_for() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
        shot.process(20, 10, &call("read").in_kernel("do_signal_stop", 'T'));
    });
    let verdict = expect(&snapshots, State::Hung, Cause::Stopped, Some(20));
    assert_eq!(pids(&verdict), [10]);
}

#[test]
fn one_that_a_debugger_has_stopped() {
    let snapshots = story(COUNT, |_, shot| {
        shot.process(10, 1, &call("").in_kernel("ptrace_stop", 't'));
    });
    let verdict = expect(&snapshots, State::Hung, Cause::Stopped, Some(10));
    assert!(verdict.summary.contains("debugger"), "{}", verdict.summary);
}

#[test]
fn a_stopped_bystander_of_a_job_that_gets_on_is_no_hang() {
    let snapshots = story(COUNT, |instant, shot| {
        let process = shot.process(10, 1, &polls(instant).at(&["main app.py 3"]));
        crate::story::counts(process, "main", instant);
        shot.process(20, 10, &call("read").in_kernel("do_signal_stop", 'T'));
    });
    assert_eq!(ask(&snapshots).verdict, State::Healthy);
}

#[test]
fn a_file_system_that_does_not_answer() {
    for (function, state) in [
        ("request_wait_answer", 'D'),
        ("rpc_wait_bit_killable", 'D'),
        ("folio_wait_bit_common", 'D'),
        ("request_wait_answer", 'S'),
    ] {
        let snapshots = story(COUNT, |instant, shot| {
            shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
            shot.process(
                20,
                10,
                &on("read", 5, "/mnt/shard")
                    .in_kernel(function, state)
                    .at(&["read_shard data.py 20"]),
            );
        });
        let verdict = expect(&snapshots, State::Hung, Cause::StorageStall, Some(20));
        assert!(
            verdict.summary.contains("/mnt/shard"),
            "{}",
            verdict.summary
        );
    }
}

#[test]
fn a_slow_disk_is_not_one_that_does_not_answer() {
    let snapshots = story(COUNT, |instant, shot| {
        let process = shot.process(
            10,
            1,
            &on("read", 5, "/data/shard")
                .in_kernel("folio_wait_bit_common", 'D')
                .ran_until(instant)
                .at(&["read_shard data.py 20"]),
        );
        process.proc.io.insert(
            "rchar".to_owned(),
            (u64::from(instant) * 100_000).to_string(),
        );
        process.proc.io.insert("wchar".to_owned(), "0".to_owned());
    });
    assert_eq!(ask(&snapshots).verdict, State::Healthy);
}

/// By a cgroup of version 2, of version 1 before and since Linux 6.1, and in a wait that no signal can be kept from.
#[test]
fn one_that_is_frozen_with_its_cgroup() {
    for (function, state) in [
        ("do_freezer_trap", 'S'),
        ("__refrigerator", 'D'),
        ("futex_do_wait", 'D'),
        ("hrtimer_nanosleep", 'D'),
    ] {
        let snapshots = story(COUNT, |_, shot| {
            shot.process(10, 1, &waits_for(20).at(&["main app.py 3"]));
            let frozen = call("futex").in_kernel(function, state);
            shot.process(20, 10, &frozen.at(&["work app.py 9"]));
        });
        let verdict = expect(&snapshots, State::Hung, Cause::Stopped, Some(20));
        assert!(verdict.summary.contains("frozen"), "{}", verdict.summary);
        assert_eq!(pids(&verdict), [10]);
    }
}
