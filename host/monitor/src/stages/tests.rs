//! Stages that nest, overlap, fail, are forgotten, and come by the million.

use proptest::prelude::*;

use super::*;
use crate::tests::{id, monitor};

const A: Owner = owner(1);
const B: Owner = owner(2);

const fn owner(pid: i32) -> Owner {
    let process = ProcessId {
        pid,
        start_time_ticks: 7,
    };
    Owner {
        pid,
        process: Some(process),
    }
}

fn moment(elapsed_seconds: f64) -> Moment {
    let at = Timestamp::parse("2026-11-29T14:40:57Z").unwrap();
    Moment {
        at: at.after(std::time::Duration::from_secs_f64(elapsed_seconds)),
        elapsed_seconds,
    }
}

/// Takes lines of process 1, one each second.
fn tell(stages: &mut Stages, lines: &[&str]) {
    for (second, line) in (0_u32..).zip(lines) {
        let now = moment(f64::from(second));
        match StageLine::parse(line).unwrap() {
            StageLine::Begin(begin) => _ = stages.begin(A, begin, now),
            StageLine::End(end) => _ = stages.end(A, &end, now),
        }
    }
}

fn told(lines: &[&str]) -> Stages {
    let mut stages = Stages::default();
    tell(&mut stages, lines);
    stages
}

/// Path, parent, beginning, length and error.
type Listed = (String, Option<u64>, f64, f64, Option<String>);

fn listed(stages: &Stages) -> Vec<Listed> {
    let records = stages.records(100.0).into_iter();
    let listed = records.map(|stage| {
        (
            path_text(&stage.path),
            stage.parent_id,
            stage.start_seconds,
            stage.wall_seconds,
            stage.error,
        )
    });
    listed.collect()
}

#[test]
fn stages_of_a_thread_nest_and_are_inclusive() {
    let stages = told(&[
        "begin thread=5 name=fit",
        "begin thread=5 name=epoch",
        "begin thread=6 name=other",
        "end thread=5 name=epoch",
        "end thread=5 error=ValueError name=fit",
    ]);
    let error = Some("ValueError".to_owned());
    assert_eq!(
        listed(&stages),
        [
            ("fit".to_owned(), None, 0.0, 4.0, error),
            ("fit/epoch".to_owned(), Some(0), 1.0, 2.0, None),
            ("other".to_owned(), None, 2.0, 98.0, None),
        ]
    );
    assert_eq!(stages.label(), "other");
    assert_eq!(stages.counts(), (1, 2));
}

#[test]
fn stages_that_overlap_are_told_apart_by_their_ids_and_not_by_their_order() {
    let stages = told(&[
        "begin id=a name=A",
        "begin id=b name=B",
        "begin id=b1 parent=b name=inner",
        "end id=a",
        "end id=b1 seconds=0.5",
        "end id=b",
    ]);
    assert_eq!(
        listed(&stages),
        [
            ("A".to_owned(), None, 0.0, 3.0, None),
            ("B".to_owned(), None, 1.0, 4.0, None),
            ("B/inner".to_owned(), Some(1), 2.0, 0.5, None),
        ]
    );
    // Without ids the name says which of a thread's ends.
    let stages = told(&["begin name=A", "begin name=B", "end name=A", "end"]);
    let ends: Vec<f64> = listed(&stages).iter().map(|it| it.2 + it.3).collect();
    assert_eq!(ends, [2.0, 3.0]);
}

#[test]
fn a_reading_counts_in_every_stage_that_is_open() {
    let mut monitor = monitor();
    tell(
        &mut monitor.stages,
        &["begin id=1 name=fit", "begin id=2 parent=1 name=a/b"],
    );
    let reading = monitor.sample(crate::tests::sample(1.5, &[(1, 100)]), 0);
    assert_eq!(reading.stage, "fit/a\\/b");
    tell(&mut monitor.stages, &["end id=2"]);
    monitor.sample(crate::tests::sample(2.5, &[(1, 900)]), 0);
    let records = monitor.stages.records(3.0);
    let peaks = records.iter().map(|stage| {
        (
            stage.statistics.samples,
            stage.statistics.peak_tree_rss_bytes,
        )
    });
    let peaks: Vec<(u64, Option<u64>)> = peaks.collect();
    assert_eq!(peaks, [(2, Some(900)), (1, Some(100))]);
}

#[test]
fn what_a_dead_process_left_open_ends_with_it_and_nothing_else_does() {
    let mut stages = told(&[
        "begin id=1 name=load",
        "begin until=exit id=2 name=step",
        "begin id=3 parent=9:x name=lost",
    ]);
    stages.begin(B, begin("of another"), moment(3.0)).unwrap();
    let again = Owner {
        process: Some(ProcessId {
            start_time_ticks: 8,
            ..id(1)
        }),
        ..A
    };
    assert_eq!(stages.process_ended(again, None, moment(4.0)), 0); // the PID, used again
    assert_eq!(stages.process_ended(A, None, moment(5.0)), 3);
    let errors: Vec<Option<String>> = listed(&stages).into_iter().map(|it| it.4).collect();
    let left_open = Some("left open".to_owned());
    assert_eq!(errors, [left_open.clone(), None, left_open, None]);
    assert!(stages.has_open(B) && !stages.has_open(A));
    stages.begin(A, begin("killed"), moment(5.0));
    stages.process_ended(A, Some("SIGKILL"), moment(6.0));
    assert_eq!(listed(&stages)[4].4.as_deref(), Some("SIGKILL"));
    stages.watching_ended(moment(7.0));
    let last = &stages.records(9.0)[3];
    assert_eq!(last.ended_by, Some(EndedBy::Collector));
    assert_eq!((last.wall_seconds, &last.error), (4.0, &None));
}

fn begin(name: &str) -> Begin {
    Begin {
        name: name.to_owned(),
        ..Begin::default()
    }
}

#[test]
fn a_stage_of_another_process_can_be_the_parent() {
    let mut stages = told(&["begin id=p name=outside"]);
    let StageLine::Begin(inner) = StageLine::parse("begin id=c parent=1:p name=inside").unwrap()
    else {
        unreachable!("it begins");
    };
    stages.begin(B, inner, moment(1.0));
    assert_eq!(listed(&stages)[1].0, "outside/inside");
}

#[test]
fn what_cannot_be_done_is_counted() {
    let mut stages = told(&[
        "end id=1",
        "end name=x",
        "begin id=1 name=a",
        "begin id=1 skipped=5 name=b",
        "begin name=c",
        "end name=d",
    ]);
    for _ in 0..MOST_OPEN {
        stages.begin(B, begin("many"), moment(9.0));
    }
    let expected = StageTrouble {
        begun_twice: 1,
        skipped: 5,
        too_many: 2,
        unmatched_ends: 3,
    };
    assert_eq!(stages.trouble, expected);
    assert_eq!(stages.counts(), (MOST_OPEN, 0));
    assert!(stages.label().starts_with("many/many/"));
    assert!(stages.label().chars().count() <= LABEL_LIMIT);
}

#[test]
fn a_million_stages_take_no_more_room_than_a_thousand_and_none_is_lost_from_the_totals() {
    let mut stages = Stages::default();
    let mut fit = begin("fit");
    fit.id = Some("fit".to_owned());
    stages.begin(A, fit, moment(0.0));
    for number in 0..1_000_000_u32 {
        let id = Some(number.to_string());
        let now = moment(f64::from(number));
        let begin = Begin {
            id: id.clone(),
            name: format!("step {}", number % 3),
            parent: Some(ParentId {
                id: "fit".to_owned(),
                pid: None,
            }),
            ..Begin::default()
        };
        stages.begin(A, begin, now).unwrap();
        let end = End {
            id,
            seconds: Some(f64::from(number % 7)),
            error: (number % 1000 == 0).then(|| "Retry".to_owned()),
            ..End::default()
        };
        stages.end(A, &end, now).unwrap();
    }
    assert_eq!(stages.records(0.0).len(), MOST_ENDED + 1);
    assert_eq!((stages.by_id.len(), stages.by_thread.len()), (1, 0));
    let totals = stages.totals();
    assert_eq!(totals.len(), 3);
    assert_eq!(totals.iter().map(|it| it.count).sum::<u64>(), 1_000_000);
    assert_eq!(totals.iter().map(|it| it.errors).sum::<u64>(), 1000);
    assert_eq!((totals[0].min_seconds, totals[0].max_seconds), (0.0, 6.0));
    assert!(totals[0].path[1].starts_with("step "), "{:?}", totals[0]);
}

#[test]
fn a_million_names_are_counted_together_beyond_those_that_are_told_apart() {
    let mut stages = Stages::default();
    for number in 0..20_000 {
        stages.begin(A, begin(&format!("step {number}")), moment(0.0));
        stages.end(A, &End::default(), moment(1.0));
    }
    let totals = stages.totals();
    assert_eq!(totals.len(), total::MOST_TOTALS + 1);
    assert_eq!(totals.iter().map(|it| it.count).sum::<u64>(), 20_000);
    let others = &totals[0];
    assert_eq!((others.path.len(), others.count), (0, 18_976));
}

proptest! {
    /// Whatever strangers say in whatever order, what is kept is consistent and nothing is counted twice.
    #[test]
    fn any_order_of_beginnings_and_ends_leaves_it_consistent(
        steps in proptest::collection::vec((0..6_u8, 0..3_i32, 0..4_u8), 0..200),
    ) {
        let mut stages = Stages::default();
        let (mut begun, mut ended) = (0, 0);
        for (what, pid, which) in steps {
            let (owner, id) = (owner(pid + 1), Some(which.to_string()));
            let now = moment(1.0);
            match what {
                0 | 1 => {
                    let id = id.filter(|_| what == 0);
                    let begin = Begin { id, ..begin(&which.to_string()) };
                    begun += usize::from(stages.begin(owner, begin, now).is_some());
                }
                2 => ended += usize::from(stages.end(owner, &End { id, ..End::default() }, now).is_some()),
                3 => ended += usize::from(stages.end(owner, &End { name: id, ..End::default() }, now).is_some()),
                4 => ended += usize::from(stages.end(owner, &End::default(), now).is_some()),
                _ => ended += stages.process_ended(owner, None, now),
            }
            prop_assert_eq!(stages.counts(), (begun - ended, ended as u64));
            let stacked: usize = stages.by_thread.values().map(Vec::len).sum();
            prop_assert_eq!(stages.by_id.len() + stacked, begun - ended);
        }
        stages.watching_ended(moment(2.0));
        prop_assert!(stages.by_id.is_empty() && stages.by_thread.is_empty());
        prop_assert_eq!(stages.totals().iter().map(|it| it.count).sum::<u64>(), begun as u64);
    }
}
