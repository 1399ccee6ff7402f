use diagnose::{Merged, Selection};
use model::{Gap, GapCode, Snapshot, Timestamp};

use super::super::tests::{LOAD, PLAIN, Place, REDUCE, job};
use super::*;

fn shown(snapshots: &[Snapshot], ui: Ui) -> String {
    let mut looked = Looked::default();
    for snapshot in snapshots {
        looked.add(snapshot, snapshot.capture.started_at);
    }
    let snapshots: Vec<&Snapshot> = snapshots.iter().collect();
    page(&Merged::of(&snapshots, &Selection::default()), &looked, ui)
}

fn later(mut snapshot: Snapshot, seconds: i64) -> Snapshot {
    let at = snapshot.capture.started_at.as_microseconds() + seconds * 1_000_000;
    snapshot.capture.started_at = Timestamp::from_microseconds(at).unwrap();
    snapshot.capture.id.stamp = snapshot.capture.started_at;
    snapshot
}

#[test]
fn who_is_where_and_whose_stack_was_not_read() {
    let mut job = job(&[&REDUCE, &REDUCE, &REDUCE, &LOAD, &[]]);
    job.processes[4].pyspy = None;
    let gap = Gap::new("python_stack", GapCode::TimedOut).of(job.processes[4].identity);
    job.gaps.push(gap);
    job.processes[2].distributed_environment.clear();
    insta::assert_snapshot!(shown(&[job], PLAIN), @r"
    train/x  attempt 0  node vm
    2026-11-29 14:41:03 UTC
    4 threads at 2 places
    no stack of rank 4: timed out

    main (train.py)  [ranks 0,1,3 and train.py (202), 4 threads]
    step (train.py)
      all_reduce (comm.py:41)  [ranks 0,1 and train.py (202), 3 threads]
      load (data.py:7)  [rank 3, 1 thread]
    ");
}

#[test]
fn over_time_each_place_has_its_share_and_since_when() {
    let looks = [
        job(&[&LOAD, &LOAD]),
        later(job(&[&REDUCE, &LOAD]), 2),
        later(job(&[&REDUCE, &LOAD]), 4),
    ];
    insta::assert_snapshot!(shown(&looks, PLAIN), @r"
    train/x  attempt 0  node vm
    3 snapshots from 2026-11-29 14:41:03 to 14:41:07 UTC
    2 threads at 2 places
    %: of all looks at these threads, those that found them there

    main (train.py)  [ranks 0,1, 2 threads, 100 %, since 14:41:03]
    step (train.py)
      load (data.py:7)  [ranks 0,1, 2 threads, 66 %, 1 of them since 14:41:03]
      all_reduce (comm.py:41)  [rank 0, 1 thread, 66 %, since 14:41:05]
    ");
}

#[test]
fn a_thousand_ranks_fit_a_narrow_terminal() {
    let deep: Vec<Place<'_>> = (0..40)
        .map(|line| ("library", "/x/site-packages/l.py", line))
        .collect();
    let deep: Vec<Place<'_>> = [REDUCE[0]]
        .into_iter()
        .chain(deep)
        .chain([REDUCE[1], REDUCE[2]])
        .collect();
    let lines: Vec<Vec<Place<'_>>> = (0..1024)
        .map(|rank| match rank % 64 {
            0..60 => deep.clone(),
            60 => LOAD.to_vec(),
            _ => vec![("work", "/job/work.py", rank), REDUCE[1], REDUCE[2]],
        })
        .collect();
    let ranks: Vec<&[Place<'_>]> = lines.iter().map(Vec::as_slice).collect();
    let narrow = Ui {
        terminal: true,
        width: 80,
        ..PLAIN
    };
    let page = shown(&[job(&ranks)], narrow);
    assert!(
        page.lines().all(|line| line.chars().count() <= 80),
        "{page}"
    );
    insta::assert_snapshot!(page, @r"
    train/x  attempt 0  node vm
    2026-11-29 14:41:03 UTC
    1024 threads at 50 places

    main (train.py)  [1024 ranks 0-1023, 1024 threads]
    step (train.py)
      library (l.py)  [960 ranks 0-59,64-123,128-187,…, 960 threads]
      library (l.py)
      … 37 frames
      library (l.py)
      all_reduce (comm.py:41)
      load (data.py:7)  [16 ranks 60,124,188,252,316,380,444,…, 16 threads]
      work (work.py:1021)  [rank 1021, 1 thread]
      work (work.py:1022)  [rank 1022, 1 thread]
      work (work.py:1023)  [rank 1023, 1 thread]
      work (work.py:125)  [rank 125, 1 thread]
      work (work.py:126)  [rank 126, 1 thread]
      work (work.py:127)  [rank 127, 1 thread]
      … 39 more branches, 39 threads
      work (work.py:957)  [rank 957, 1 thread]
      work (work.py:958)  [rank 958, 1 thread]
      work (work.py:959)  [rank 959, 1 thread]

    … is left out here; --json has all
    ");
}
