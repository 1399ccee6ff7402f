//! Judging while the task runs: what is established is told once an episode, and a healthy job is left alone.

use std::time::Duration;

use model::{
    CgroupLevel, CgroupMemory, Filesystem, Limit, Mount, MountPurpose, Severity, Snapshot, Target,
};
use taskscope_diagnose::{News, Recent, Tuning, resolve};

use crate::story::{Shot, futex, identity, polls, runs, story};

/// What is told of each snapshot.
fn told(snapshots: &[Snapshot]) -> Vec<News> {
    told_with(Tuning::default(), snapshots)
}

fn told_with(tuning: Tuning, snapshots: &[Snapshot]) -> Vec<News> {
    let mut recent = Recent::new(tuning);
    let news = snapshots.iter().map(|snapshot| {
        let news = recent.judge(snapshot, &[]);
        assert_eq!(news.findings.len(), news.messages.len());
        for finding in &news.findings {
            assert!(!finding.evidence.is_empty(), "{}", finding.message);
            for evidence in &finding.evidence {
                let value = resolve(snapshot, &evidence.pointer);
                let value = value.map(|value| value.to_string());
                assert_eq!(
                    value.as_ref(),
                    Some(&evidence.value),
                    "{}",
                    evidence.pointer
                );
            }
        }
        news
    });
    news.collect()
}

/// At which instants something was told, and of which kind.
fn kinds(news: &[News]) -> Vec<(usize, &str)> {
    let told = news.iter().enumerate();
    told.flat_map(|(instant, news)| {
        let findings = news.findings.iter();
        findings.map(move |finding| (instant, finding.kind.as_str()))
    })
    .collect()
}

/// Ranks that step each instant, but while `is_stuck`: then rank 2 looks for a file and the others wait for it.
fn ranks_that_are_stuck(count: u32, is_stuck: impl Fn(u32) -> bool) -> Vec<Snapshot> {
    story(count, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
        let since = (0..=instant).rev().find(|at| !is_stuck(*at)).unwrap_or(0);
        for rank in 0..4 {
            let step = ["step train.py 12", "main train.py 30"];
            let doing = match (is_stuck(instant), rank) {
                (false, _) => polls(instant).at(&step),
                (true, 2) => polls(instant).at(&["wait_for shard.py 3", step[0], step[1]]),
                (true, _) => futex("0x7f00")
                    .at(&["all_reduce /lib/dist.py 50", step[0], step[1]])
                    .ran_until(since + 1),
            };
            let pid = 20 + i32::try_from(rank).unwrap();
            let counted = if is_stuck(instant) { since } else { instant };
            shot.rank(rank, pid, &doing).steps.push(model::Step {
                file: "train.py".to_owned(),
                function: "main".to_owned(),
                line: 30,
                name: "step".to_owned(),
                thread_id: None,
                value: (counted * 1000).into(),
            });
        }
    })
}

#[test]
fn a_hang_is_told_once_with_what_shows_it_in_that_very_snapshot() {
    let news = told(&ranks_that_are_stuck(40, |instant| instant >= 10));
    let kinds = kinds(&news);
    let [(instant, "rank-behind")] = kinds.as_slice() else {
        panic!("{kinds:?}");
    };
    assert!((13..=16).contains(instant), "{instant}");
    let finding = &news[*instant].findings[0];
    assert_eq!(finding.severity, Severity::Error);
    assert_eq!(finding.target, Target::Process(identity(22)));
    assert_eq!(finding.plugin, None);
    let message = &news[*instant].messages[0];
    assert!(
        message.starts_with("hung (rank-behind): rank 2 is behind")
            && message.contains("wait_for (shard.py:3)")
            && message.contains("(no progress for at least "),
        "{message}"
    );
    // Once more to make sure, and a burst around it.
    let closer: Vec<usize> = (0..40).filter(|at| news[*at].closer.is_some()).collect();
    assert_eq!(closer, [instant - 1]);
    let news = told_with(
        Tuning {
            burst: 3,
            ..Tuning::default()
        },
        &ranks_that_are_stuck(40, |instant| instant >= 10),
    );
    let closer: Vec<usize> = (0..40).filter(|at| news[*at].closer.is_some()).collect();
    let first = instant - 1;
    assert_eq!(closer, [first, first + 1, first + 2, first + 3]);
    let apart = news[first].closer.unwrap();
    assert!(apart < Duration::from_millis(400), "{apart:?}");
}

/// Ranks that step each instant, with arguments that tell them apart, until rank 2 dies at this one and the others wait for it.
fn ranks_of_which_one_dies(count: u32, dies: u32) -> Vec<Snapshot> {
    story(count, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
        for rank in 0..4 {
            let step = ["step train.py 12", "main train.py 30"];
            let doing = match (instant < dies, rank) {
                (true, _) => runs(instant).at(&step),
                (false, 2) => continue,
                (false, _) => futex("0x7f00")
                    .at(&["all_reduce /lib/dist.py 50", step[0], step[1]])
                    .ran_until(dies),
            };
            let process = shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
            process.cmdline = vec!["python".to_owned(), format!("--rank={rank}")];
        }
    })
}

#[test]
fn of_who_stays_only_motion_is_kept_and_who_is_gone_is_known() {
    let snapshots = ranks_of_which_one_dies(20, 10);
    let mut recent = Recent::new(Tuning::default());
    let mut news = Vec::new();
    for (instant, snapshot) in snapshots.iter().enumerate() {
        news.push(recent.judge(snapshot, &[]));
        let kept = format!("{recent:?}");
        let times = |argument: &str| kept.matches(argument).count();
        let gone = if instant < 10 { 2 } else { 1 };
        match instant {
            // The newest, and the one before, whose place a closer one may take.
            9..=16 => assert_eq!(
                (times("--rank=1"), times("--rank=2")),
                (2, gone),
                "{instant}"
            ),
            18.. => assert_eq!((times("--rank=1"), times("--rank=2")), (2, 0), "{instant}"),
            _ => {}
        }
    }
    let kinds = kinds(&news);
    let [(instant, "rank-dead")] = kinds.as_slice() else {
        panic!("{kinds:?}");
    };
    assert!((13..=16).contains(instant), "{instant}");
    let message = &news[*instant].messages[0];
    assert!(message.contains("rank 2"), "{message}");
}

#[test]
fn an_episode_ends_and_another_is_told_anew() {
    let is_stuck = |instant| (10..20).contains(&instant) || instant >= 40;
    let news = told(&ranks_that_are_stuck(60, is_stuck));
    let told = kinds(&news);
    // The second takes longer: it waits longer than it ever did before.
    assert!(
        matches!(
            told.as_slice(),
            [(12..=17, "rank-behind"), (52..=58, "rank-behind")]
        ),
        "{told:?}"
    );
    // On stderr each as one line.
    let messages: Vec<&String> = news.iter().flat_map(|it| &it.messages).collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages.iter().all(|it| !it.contains('\n')));
}

#[test]
fn more_patience_is_had_where_it_is_asked_for() {
    let tuning = Tuning {
        patience: Some(Duration::from_secs(15)),
        ..Tuning::default()
    };
    let stuck = |end: u32| ranks_that_are_stuck(end, |instant| (10..20).contains(&instant));
    assert_eq!(kinds(&told_with(tuning, &stuck(40))), []);
    let news = told_with(tuning, &ranks_that_are_stuck(40, |instant| instant >= 10));
    let kinds = kinds(&news);
    assert!(
        matches!(kinds.as_slice(), [(21..=27, "rank-behind")]),
        "{kinds:?}"
    );
}

/// The same snapshots this far apart, with an interval between those that are due.
fn apart(mut snapshots: Vec<Snapshot>, seconds: &[u64], interval: f64) -> Vec<Snapshot> {
    let begin = snapshots[0].capture.started_at;
    snapshots.truncate(seconds.len());
    for (snapshot, seconds) in snapshots.iter_mut().zip(seconds) {
        let at = begin.after(Duration::from_secs(*seconds));
        snapshot.capture.started_at = at;
        snapshot.capture.id.stamp = at;
        snapshot.capture.interval_s = Some(interval);
    }
    snapshots
}

#[test]
fn closer_looks_establish_a_hang_within_a_minute_where_intervals_are_long() {
    let seconds = [0, 120, 240, 360, 480, 600, 620, 640, 660, 680, 720];
    let snapshots = ranks_that_are_stuck(11, |instant| instant >= 6);
    let news = told(&apart(snapshots, &seconds, 120.0));
    let kinds = kinds(&news);
    assert!(
        matches!(kinds.as_slice(), [(9..=10, "rank-behind")]),
        "{kinds:?}"
    );
}

/// Six intervals or a minute, whichever is less, where it is not known how long a step takes: of 30 s it is the minute, where samples
/// ask for closer looks; of 10 s the intervals.
#[test]
fn a_minute_or_six_intervals_make_a_hang_whichever_is_less() {
    let due = |interval: u64| (0..=10).map(move |count| count * interval);
    // The stand begins just after the eleventh look; samples ask 10, 27, 43 and 60 s later, and the last is made sure of at once.
    let closer = due(30).chain([310, 327, 330, 343, 360, 362, 390]);
    let closer: Vec<u64> = closer.collect();
    let stuck = |count: u32| ranks_that_are_stuck(count, |instant| instant >= 11);
    let news = told(&apart(stuck(18), &closer, 30.0));
    let at: Vec<u64> = kinds(&news).iter().map(|(at, _)| closer[*at]).collect();
    assert!(matches!(at.as_slice(), [343..=362]), "{at:?}");
    // Without them it takes two looks in a row that show it, 30 s apart.
    let plain: Vec<u64> = due(30).chain([330, 360, 390, 420, 450]).collect();
    let news = told(&apart(stuck(16), &plain, 30.0));
    let at: Vec<u64> = kinds(&news).iter().map(|(at, _)| plain[*at]).collect();
    assert!(matches!(at.as_slice(), [390..=450]), "{at:?}");
    let short: Vec<u64> = due(10).chain((11..20).map(|count| count * 10)).collect();
    let news = told(&apart(stuck(20), &short, 10.0));
    let at: Vec<u64> = kinds(&news).iter().map(|(at, _)| short[*at]).collect();
    assert!(matches!(at.as_slice(), [150..=170]), "{at:?}");
}

#[test]
fn long_pauses_that_come_again_are_told_once_at_most() {
    // Every 30 s rank 0 writes a checkpoint for 8 s while the others wait for it.
    let is_pause = |instant: u32| instant % 30 >= 22;
    let snapshots = story(400, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
        for rank in 0..4 {
            let step = ["step train.py 12", "main train.py 30"];
            let doing = match (is_pause(instant), rank) {
                (false, _) => runs(instant).at(&step),
                (true, 0) => polls(instant).at(&["save ckpt.py 3", step[0], step[1]]),
                (true, _) => futex("0x7f00")
                    .at(&["barrier /lib/dist.py 50", step[0], step[1]])
                    .ran_until(instant / 30 * 30 + 22),
            };
            shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &doing);
        }
    });
    let news = told(&snapshots);
    assert!(kinds(&news).len() <= 1, "{:?}", kinds(&news));
}

#[test]
fn jobs_that_get_on_are_left_alone() {
    let steps = told(&ranks_that_are_stuck(200, |_| false));
    assert_eq!(kinds(&steps), []);
    // Every third step takes four seconds.
    let slow = told(&ranks_that_are_stuck(200, |instant| instant % 7 >= 3));
    assert!(kinds(&slow).len() <= 1, "{:?}", kinds(&slow));
    let server = told(&story(100, |instant, shot| {
        let mut accept = crate::story::on("accept4", 3, "socket:[9]").at(&["serve web.py 8"]);
        accept = accept.ran_until(instant / 50);
        shot.process(10, 1, &accept);
    }));
    assert_eq!(kinds(&server), []);
    let sleeper = told(&story(100, |instant, shot| {
        shot.process(10, 1, &polls(instant / 9).at(&["main cron.py 4"]));
    }));
    assert_eq!(kinds(&sleeper), []);
}

#[test]
fn ranks_that_wait_for_another_node_are_told_of() {
    let snapshots = story(12, |instant, shot| {
        shot.process(10, 1, &polls(instant).at(&["monitor launch.py 9"]));
        for rank in 0..2 {
            let waits = futex("0x7f00").at(&["all_reduce /lib/dist.py 50", "main train.py 30"]);
            let process = shot.rank(rank, 20 + i32::try_from(rank).unwrap(), &waits.ran_until(1));
            let environment = &mut process.distributed_environment;
            environment.insert("WORLD_SIZE".to_owned(), "4".to_owned());
        }
    });
    let news = told(&snapshots);
    let messages: Vec<&String> = news.iter().flat_map(|it| &it.messages).collect();
    assert_eq!(messages.len(), 1);
    assert!(
        messages[0].contains("ranks 0,1 wait in all_reduce for ranks that are not on this node"),
        "{}",
        messages[0]
    );
    assert_eq!(kinds(&news)[0].1, "waiting-for-peer");
}

fn gets_on(shot: &mut Shot, instant: u32) {
    shot.process(10, 1, &runs(instant).at(&["main train.py 4"]));
}

#[test]
fn memory_that_is_nearly_used_up_is_told_once_and_page_cache_is_no_need() {
    let used = |bytes: fn(u32) -> u64| {
        story(30, move |instant, shot| {
            gets_on(shot, instant);
            shot.snapshot.cgroup.chain = vec![CgroupLevel {
                memory: Some(CgroupMemory {
                    file_bytes: Some(500),
                    limit_bytes: Limit::At(1000),
                    shmem_bytes: Some(400),
                    usage_bytes: Some(bytes(instant)),
                    ..CgroupMemory::default()
                }),
                path: "/job".to_owned(),
                ..CgroupLevel::default()
            }];
        })
    };
    assert_eq!(kinds(&told(&used(|_| 1000))), []);
    let news = told(&used(|instant| u64::from(instant) * 20 + 880));
    assert_eq!(kinds(&news), [(10, "memory-pressure")]);
    assert_eq!(news[10].findings[0].severity, Severity::Warning);
    assert_eq!(
        news[10].messages[0],
        "a limit is near (memory-pressure): 98 % of the 0 MiB of memory of its cgroup are used"
    );
}

#[test]
fn a_disk_that_is_nearly_full_is_told_and_a_large_one_with_room_is_not() {
    let room = |available: u64, total: u64, purpose: MountPurpose| {
        story(10, move |instant, shot| {
            gets_on(shot, instant);
            shot.snapshot.filesystem = Filesystem {
                mounts: vec![Mount {
                    bytes_available: Some(available << 20),
                    bytes_free: None,
                    bytes_total: Some(total << 20),
                    inodes_free: None,
                    inodes_total: None,
                    is_read_only: None,
                    kind: None,
                    mount_point: None,
                    path: "/data".to_owned(),
                    purpose,
                    source: None,
                }],
                ..Filesystem::default()
            };
        })
    };
    let told = |snapshots: Vec<Snapshot>| {
        let news = told(&snapshots);
        let kinds = kinds(&news);
        kinds.first().map(|(_, kind)| (*kind).to_owned())
    };
    let disk = MountPurpose::WorkingDirectory;
    assert_eq!(told(room(100, 10_000, disk)).as_deref(), Some("disk-full"));
    assert_eq!(told(room(50_000, 2_000_000, disk)), None);
    let shared = MountPurpose::SharedMemory;
    assert_eq!(told(room(1, 64, shared)).as_deref(), Some("shm-full"));
    assert_eq!(told(room(1, 64, MountPurpose::Spool)), None);
}

/// How one ended that nobody has seen is known from its obituary, at once.
#[test]
fn the_end_of_a_worker_is_told_of_while_the_task_runs() {
    let waits = [
        "wait /usr/lib/python3.11/threading.py 320",
        "ApplyResult.wait /usr/lib/python3.11/multiprocessing/pool.py 762",
        "main app.py 40",
    ];
    let snapshots = story(10, |_, shot| {
        shot.process(10, 1, &futex("0x1").at(&waits));
        shot.process(21, 10, &crate::story::on("read", 3, "pipe:[1]"));
        shot.pipe("pipe:[1]", &[21], &[10], 0);
    });
    let mut recent = Recent::new(Tuning::default());
    let ends = [crate::ends::end(0, 30, crate::ends::killed(9))];
    let news = snapshots
        .iter()
        .map(|snapshot| recent.judge(snapshot, &ends));
    let told: Vec<String> = news.flat_map(|news| news.messages).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    let begin = "hung (crashed): process 30 (job.py) was ended by SIGKILL";
    assert!(told[0].starts_with(begin), "{told:?}");
}
